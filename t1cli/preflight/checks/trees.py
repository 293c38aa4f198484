"""software: the checkouts that slime runs from, against the commits that were tested."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from t1cli.preflight.check import Check, Context, Saw, failed, passed, skipped, warned
from t1cli.preflight.every_node import EveryNode
from t1cli.preflight.fleet import Probe
from t1cli.preflight.tested import SLIME_COMMITS, TREES
from t1cli.spec.engine import SlimeEngine

_PATCHES = "docker/patch/latest"
_TOLD = 5


def trees(context: Context, found: Any) -> Saw:
    """slime and Megatron at the tested commits, with slime's own patches and no other change; changed files are named.

    A patch whose `except` swallows errors of NCCL turns a dead rank into a hang of hours: always an error.
    """
    engine = context.spec.engine
    assert isinstance(engine, SlimeEngine)
    wanted_commits = {"slime": SLIME_COMMITS.get(engine.version, ""), "megatron": TREES["megatron"]}
    fatal: list[str] = []
    odd: list[str] = []
    for name, tree in found.items():
        wrong, untested = _problems(name, tree, wanted_commits[name])
        fatal += wrong
        odd += untested
    wanted = f"slime {engine.version} and its Megatron commit, patched as slime ships them"
    if fatal:
        return failed(
            "; ".join([*fatal, *odd]), wanted, "`git stash` or `git checkout` there, then apply slime's own patches"
        )
    if odd:
        return warned("; ".join(odd), wanted, "rehearse with them, or use slime's image")
    return passed(", ".join(f"{name} {tree['commit'][:9] or 'without git'}" for name, tree in found.items()), wanted)


def _problems(name: str, tree: Any, commit: str) -> tuple[list[str], list[str]]:
    if not tree["exists"]:
        return [f"{name} is not there"], []
    fatal = [f"{name}: {file} swallows communication errors" for file in tree["swallowing"]]
    unpatched = sorted(set(tree["patched"]) - set(tree["changed"])) if tree["commit"] else []
    if unpatched:
        fatal.append(f"{name} lacks slime's patch: {_some(unpatched)} unchanged")
    odd = []
    if not tree["commit"]:
        odd.append(f"{name} is no git checkout: its state is unknown")
    elif commit and tree["commit"] != commit:
        odd.append(f"{name} at {tree['commit'][:9]}, tested at {commit[:9]}")
    extra = sorted(set(tree["changed"]) - set(tree["patched"]))
    if extra:
        odd.append(f"{name} has changed files: {_some(extra)}")
    return fatal, odd


def _trees(context: Context) -> Probe | Saw:
    engine = context.spec.engine
    if engine.kind != "slime":
        return skipped("the embedded engine has no slime")
    patch = str(PurePosixPath(engine.slime_dir) / _PATCHES / "megatron.patch")
    asked: dict[str, Any] = {
        "slime": {"path": engine.slime_dir},
        "megatron": {"path": engine.megatron_dir, "patches": [patch]},
    }
    return Probe("t1cli.preflight.probes.trees:trees", {"asked": asked})


def sglang(context: Context, found: Any) -> Saw:
    """SGLang can return the experts that tokens were routed to; its files are as installed, with slime's patch."""
    wanted = "the tested SGLang with slime's patch and no other change"
    fix = "install the tested SGLang with slime's docker/patch/latest/sglang.patch"
    if found["server_args"] is None:
        return failed("no sglang/srt/server_args.py", wanted, "install sglang as in slime's Dockerfile")
    said = f"sglang {found['version']}"
    if found["swallowing"]:
        return failed(f"{said}: {_some(found['swallowing'])} swallows communication errors", wanted, fix)
    if not found["routed_experts"] and _replays(context):
        return failed(f"{said} cannot return routed experts", wanted, f"{fix}, or --set rollout.routing_replay=false")
    extra = sorted(set(found["changed"]) - set(found["patched"]))
    if extra:
        return warned(f"{said} has changed files: {_some(extra)}", wanted, "rehearse with them, or use slime's image")
    return passed(said + (" returns routed experts" if found["routed_experts"] else ""), wanted)


def _sglang(context: Context) -> Probe | Saw:
    engine = context.spec.engine
    if engine.kind != "slime":
        return skipped("the embedded engine is t1's own")
    patch = str(PurePosixPath(engine.slime_dir) / _PATCHES / "sglang.patch")
    return Probe("t1cli.preflight.probes.sglang_files:sglang_files", {"patch": patch})


def _replays(context: Context) -> bool:
    return context.spec.rollout.routing_replay and context.spec.model.architecture.num_experts > 0


def _some(names: list[str]) -> str:
    return ", ".join(names[:_TOLD]) + (f" and {len(names) - _TOLD} more" if len(names) > _TOLD else "")


CHECKS = (
    Check("software.trees", ("C7", "C4"), EveryNode(_trees, trees), limit_seconds=60.0),
    Check("software.sglang", ("F4", "C7"), EveryNode(_sglang, sglang)),
)
