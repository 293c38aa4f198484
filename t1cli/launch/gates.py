"""The gates before a launch: what refuses it, and which refusals the user accepted by ID."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from t1cli.errors import Diagnostic, Refused
from t1cli.plan.plan import Plan
from t1cli.preflight.report import CheckResult, PreflightReport
from t1cli.run.directory import RunDirectory
from t1cli.run.save_directories import save_directories
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import LoadedSpec

OOM_ID: Final = "OOM"
DECIDED_AT_START: Final = frozenset({"S8", "running"})
"""Refusals that only a cluster's answer decides, behind the gates; accepting them is recorded beforehand."""
_ALLOCATOR_VARIABLES: Final = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


@dataclass(frozen=True)
class Refusal:
    """One reason why a launch does not happen."""

    id: str
    """Catalogue ID, check ID, `OOM` or `engine`; `--accept` takes it."""
    message: str
    where: str
    fix: str
    acceptable: bool = True
    """False where going on would break something no matter what the user accepts."""
    also: tuple[str, ...] = ()
    """Further IDs that accept it."""

    def to_json(self) -> dict[str, object]:
        """As it stands in `refusals`."""
        return {
            "id": self.id,
            "message": self.message,
            "where": self.where,
            "fix": self.fix,
            "acceptable": self.acceptable,
        }


@dataclass(frozen=True)
class Gated:
    """Refusals sorted by what the user accepted."""

    refusing: tuple[Refusal, ...]
    accepted: tuple[str, ...]
    """Accepted IDs that overrode something."""


def sort_out(refusals: Sequence[Refusal], accepted: Collection[str]) -> Gated:
    """Which refusals stand, and which accepted IDs overrode one."""
    refusing: list[Refusal] = []
    used: set[str] = set()
    for refusal in refusals:
        matching = {refusal.id, *refusal.also} & set(accepted) if refusal.acceptable else set()
        used |= matching
        if not matching:
            refusing.append(refusal)
    return Gated(tuple(refusing), tuple(sorted(used)))


def raise_for(refusals: Sequence[Refusal], *, command: str) -> None:
    """Raise Refused with every refusal located and its fix; the last line is the command that accepts them."""
    if not refusals:
        return
    diagnostics = [Diagnostic(f"{r.id}: {r.message}", r.where, hint=r.fix) for r in refusals]
    ids = dict.fromkeys(r.id for r in refusals if r.acceptable)
    if ids and all(r.acceptable for r in refusals):
        last = diagnostics[-1]
        accept = " ".join(f"--accept {id_}" for id_ in ids)
        # One line: whatever breaks lines in a hint is shown as what it is.
        hint = f"{last.hint}; to go on all the same: `{command} {accept}`".lstrip("; ")
        diagnostics[-1] = Diagnostic(last.message, last.where, hint=hint)
    error = Refused(diagnostics[0].message)
    error.diagnostics = tuple(diagnostics)
    raise error


def plan_refusals(plan: Plan, loaded: LoadedSpec) -> tuple[Refusal, ...]:
    """Findings of severity `error`, and a verdict of OOM."""
    found = [Refusal(f.id, f.message, f.where, f.fix) for f in plan.findings if f.severity == "error"]
    if plan.verdict == "OOM":
        message = (
            f"plan {plan.digest} says OOM: a GPU's predicted peak is above the {plan.memory.usable_gib:.1f} GiB usable"
        )
        fix = f"`{loaded.again('plan', '--search')}` finds layouts that fit"
        found.append(Refusal(OOM_ID, message, "", fix))
    return tuple(found)


def preflight_refusals(report: PreflightReport) -> tuple[Refusal, ...]:
    """Checks that failed or broke."""
    return tuple(_check_refusal(c) for c in report.checks if c.status in ("fail", "crashed"))


def standing_refusals(loaded: LoadedSpec, run: RunDirectory) -> tuple[Refusal, ...]:
    """What no plan and no probe is needed for: C2 by the directories, M9 by the environment that would be inherited."""
    directories = save_directories(loaded.spec, run)
    found = list(inherited_allocator(loaded.spec, os.environ))
    if directories.share_files:
        found.append(
            Refusal(
                "C2",
                f"the critic's checkpoints ({directories.critic}) would overwrite the actor's ({directories.actor})",
                loaded.where("checkpoint.critic_dir"),
                "leave checkpoint.critic_dir out, or name a directory outside the actor's",
                acceptable=False,
            )
        )
    return tuple(found)


def inherited_allocator(spec: ExperimentSpec, environment: Mapping[str, str]) -> tuple[Refusal, ...]:
    """M9: expandable segments in the environment against the memory saver that offloading training needs."""
    offloads = spec.algorithm.kind == "ppo" or spec.trainer.offload_train
    if spec.engine.kind != "slime" or not offloads:
        return ()
    setting = {name: environment[name] for name in _ALLOCATOR_VARIABLES if name in environment}
    return tuple(
        Refusal(
            "M9",
            f"{name}={value} would be inherited; torch's memory saver, which offloading training needs, refuses it",
            f"environment variable {name}",
            f"`unset {name}`",
            acceptable=False,
        )
        for name, value in setting.items()
        if "expandable_segments:true" in value.replace(" ", "").lower()
    )


def _check_refusal(check: CheckResult) -> Refusal:
    verb = "broke" if check.status == "crashed" else "failed"
    wanted = f"; wanted: {check.wanted}" if check.wanted else ""
    return Refusal(check.id, f"check {verb}: {check.found}{wanted}", "", check.fix, also=check.catalogue)
