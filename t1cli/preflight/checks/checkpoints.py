"""checkpoints: where saves go, what already lies there, and what a resume would start from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from t1cli.preflight.check import Check, Context, Saw, failed, passed, skipped, warned
from t1cli.preflight.every_node import EveryNode
from t1cli.preflight.fleet import Probe
from t1cli.spec.role_directories import role_directories, share_files


def directories(context: Context, found: Any) -> Saw:
    """Actor's and critic's directories as every node resolves them: a link may make them one, and the critic wins."""
    roles = {role: said["resolved"] for role, said in found.items()}
    wanted = "two directories, neither inside the other"
    if len(roles) < 2:
        return passed(f"one role: {next(iter(roles.values()))}", wanted)
    actor, critic = roles["actor"], roles["critic"]
    said = f"actor {actor}, critic {critic}"
    if share_files(actor, critic):
        return failed(said, wanted, "set checkpoint.critic_dir to a directory outside the actor's, or leave it out")
    return passed(said, wanted)


def resume(context: Context, found: Any) -> Saw:
    """What lies in the save directories: whole checkpoints of this campaign, in step with each other, or nothing."""
    wanted = "no checkpoints, or whole ones of this campaign that every role has"
    wrong = [text for role, said in found.items() for text in _wrong(context, role, said)]
    if wrong:
        fix = "move that directory away for a new campaign, or finish the interrupted save by `--resume`"
        return failed("; ".join(wrong[:3]), wanted, fix)
    newest = {
        role: max((one for one, manifest in said.get("iterations", {}).items() if manifest), default="")
        for role, said in found.items()
    }
    if not any(newest.values()):
        return passed("empty: a campaign begins", wanted)
    if len(set(newest.values())) > 1:
        told = ", ".join(f"{role} {name or 'nothing'}" for role, name in newest.items())
        return warned(f"newest differ: {told}", wanted, "a resume takes the newest that every role has")
    return passed(f"every role has {next(iter(newest.values()))}", wanted)


def _wrong(context: Context, role: str, said: Any) -> Iterator[str]:
    iterations = said.get("iterations", {})
    tracker = said.get("tracker", "")
    if tracker.isdigit() and f"iter_{int(tracker):07d}" not in iterations:
        yield f"{role}: the tracker names iteration {tracker}, which is not there"
    for name, manifest in iterations.items():
        if manifest is None:
            continue
        if manifest.get("role") not in (role, None):
            yield f"{role}: {name} holds the {manifest['role']}"
        if manifest.get("campaign") not in (context.spec.name, None):
            yield f"{role}: {name} belongs to campaign {manifest['campaign']}"


def _named(context: Context) -> Probe | Saw:
    """Only directories that the spec names: those of a run directory are new with every attempt."""
    if not context.spec.checkpoint.actor_dir:
        return skipped("checkpoints go into the run directory, which is new")
    actor, critic = role_directories(context.spec.checkpoint, "")
    paths = {"actor": _path(context, actor)}
    if context.spec.algorithm.kind == "ppo":
        paths["critic"] = _path(context, critic)
    return Probe("t1cli.preflight.probes.model_files:saves", {"paths": paths})


def _path(context: Context, text: str) -> str:
    """Embedded campaigns read paths from the experiment's directory, slime as its nodes see them."""
    return str(context.loaded.resolve_path(text)) if context.runs_here else text


CHECKS = (
    Check("checkpoints.directories", ("C2",), EveryNode(_named, directories)),
    Check("checkpoints.resume", ("C2", "C8"), EveryNode(_named, resume)),
)
