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
    """SGLang can return the experts that each token was routed to, and slime's changes to it are in."""
    wanted = "an SGLang whose server arguments know enable_return_routed_experts"
    if found["server_args"] is None:
        return failed("no sglang/srt/server_args.py", wanted, "install sglang as in slime's Dockerfile")
    if found["routed_experts"]:
        return passed(f"sglang {found['version']} returns routed experts", wanted)
    fix = (
        "install the tested SGLang with slime's docker/patch/latest/sglang.patch, or --set rollout.routing_replay=false"
    )
    return failed(f"sglang {found['version']} cannot return routed experts", wanted, fix)


def _sglang(context: Context) -> Probe | Saw:
    if not context.on_slime:
        return skipped("the embedded engine returns them by construction")
    if not context.spec.rollout.routing_replay or not context.spec.model.architecture.num_experts:
        return skipped("no routing replay: nothing asks for routed experts")
    return Probe("t1cli.preflight.probes.sglang_files:sglang_files")


def _some(names: list[str]) -> str:
    return ", ".join(names[:_TOLD]) + (f" and {len(names) - _TOLD} more" if len(names) > _TOLD else "")


CHECKS = (
    Check("software.trees", ("C7", "C4"), EveryNode(_trees, trees), limit_seconds=60.0),
    Check("software.sglang", ("F4", "C7"), EveryNode(_sglang, sglang)),
)
