"""`--dry-run`: exactly what a launch would run and why it would not. Starts nothing, writes nothing, probes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from t1cli.errors import Refused
from t1cli.launch.backend import Invocation
from t1cli.launch.gates import Refusal, plan_refusals, sort_out, standing_refusals
from t1cli.launch.proposal import LaunchOptions, Stages, stop_command
from t1cli.launch.resume import attempt_to_resume, resume_refusals
from t1cli.plan.plan import Verdict
from t1cli.run.attempts import next_attempt
from t1cli.run.directory import RunDirectory
from t1cli.run.lock import refuse_if_held
from t1cli.spec.load import LoadedSpec

FORMAT_VERSION = 1
_PREFLIGHT_NOTE: Final = "preflight was not run; a launch runs it first and starts nothing when a check fails"


@dataclass(frozen=True)
class DryRun:
    """The answer of `t1 launch --dry-run`."""

    name: str
    digest: str
    verdict: Verdict
    """The plan's."""
    run_dir: str
    attempt: int
    """The attempt that a launch would create, or resume."""
    engine: str
    invocation: Invocation
    refusals: tuple[Refusal, ...]
    accepted: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def would_start(self) -> bool:
        """Nothing known so far refuses; the exit code says the same."""
        return not self.refusals

    def to_json(self) -> dict[str, Any]:
        """One JSON object with `format_version` first."""
        role_file: Mapping[str, Any] | None = self.invocation.role_file
        first = self.invocation.evaluation_argv
        return {
            "format_version": FORMAT_VERSION,
            "name": self.name,
            "digest": self.digest,
            "verdict": self.verdict,
            "would_start": self.would_start,
            "run_dir": self.run_dir,
            "attempt": self.attempt,
            "engine": self.engine,
            "job_id": None,
            "argv": list(self.invocation.argv),
            "evaluation_argv": None if first is None else list(first),
            "env": dict(self.invocation.env),
            "role_file": role_file,
            "job": None if self.invocation.job is None else dict(self.invocation.job),
            "refusals": [refusal.to_json() for refusal in self.refusals],
            "accepted": list(self.accepted),
            "notes": list(self.notes),
        }


def dry_run(loaded: LoadedSpec, options: LaunchOptions, stages: Stages | None = None) -> DryRun:
    """What `launch` with the same arguments would do, up to the probes. Raises BadInput only through its stages."""
    stages = stages or Stages()
    backend = stages.backend(loaded.spec)
    run, refused = _target(loaded, options)
    plan = stages.plan(loaded)
    refusals = [*refused, *backend.refusals(loaded), *standing_refusals(loaded, run), *plan_refusals(plan, loaded)]
    if options.resume and not refused:
        refusals += resume_refusals(loaded, run)
    gated = sort_out(refusals, options.accepted)
    return DryRun(
        name=loaded.spec.name,
        digest=plan.digest,
        verdict=plan.verdict,
        run_dir=str(run.path),
        attempt=run.attempt,
        engine=backend.engine,
        invocation=backend.invocation(loaded, run),
        refusals=gated.refusing,
        accepted=gated.accepted,
        notes=(_PREFLIGHT_NOTE,),
    )


def _target(loaded: LoadedSpec, options: LaunchOptions) -> tuple[RunDirectory, tuple[Refusal, ...]]:
    """The attempt a launch would work on; a lock or a resume that refuses becomes a refusal."""
    campaign = options.runs_root / loaded.spec.name
    run, refusals = next_attempt(campaign), []
    try:
        refuse_if_held(campaign, stop_command=stop_command(loaded, options))
    except Refused as refused:
        refusals.append(_as_refusal("running", refused))
    if options.resume:
        try:
            run = attempt_to_resume(campaign, loaded)[0]
        except Refused as refused:
            refusals.append(_as_refusal("resume", refused))
    return run, tuple(refusals)


def _as_refusal(id_: str, refused: Refused) -> Refusal:
    first = refused.diagnostics[0]
    return Refusal(id_, first.message, first.where, first.hint, acceptable=False)
