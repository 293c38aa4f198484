"""harness: a spec's own agent loop, imported where its trials run."""

from __future__ import annotations

from typing import Any

from t1cli.preflight.check import Check, Context, Saw, failed, passed, skipped
from t1cli.preflight.every_node import EveryNode
from t1cli.preflight.fleet import Probe
from t1cli.spec.harnesses import text_harness_path


def importable(context: Context, found: Any) -> Saw:
    """The function that `rollout.harness` names is there on every node, async, and takes one trial."""
    wanted = "an async function that takes the trial"
    if found["problem"]:
        return failed(found["problem"], wanted, found["hint"] or "install it wherever trials run")
    return passed(context.spec.rollout.harness, wanted)


def _probe(context: Context) -> Probe | Saw:
    path = text_harness_path(context.spec.rollout.harness)
    if path is None:
        return skipped(f"trials run the built-in loop (rollout.harness is {context.spec.rollout.harness})")
    return Probe("t1cli.preflight.probes.own_code:text_harness", {"path": path})


CHECKS = (Check("harness.importable", (), EveryNode(_probe, importable), limit_seconds=60.0),)
