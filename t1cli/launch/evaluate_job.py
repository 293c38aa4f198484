"""`t1 eval` on a cluster: gates as for a launch, a run of its own, and what its job measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from t1cli.errors import BadInput, CouldNotAsk
from t1cli.launch.backend import Backend, Occupation
from t1cli.launch.evaluation import FORMAT_VERSION, EvaluationAnswer, summarise
from t1cli.launch.gates import DECIDED_AT_START, raise_for, sort_out
from t1cli.launch.proposal import Dialogue, LaunchOptions, Proposal, plan_for, stop_command
from t1cli.launch.reattach import reattach, settle
from t1cli.launch.slime.evaluation import SUFFIX, SlimeEvaluation, refuse_other
from t1cli.launch.start import Start
from t1cli.preflight.report import PreflightReport
from t1cli.run.attempts import latest_attempt, next_attempt
from t1cli.run.directory import RunDirectory
from t1cli.run.lock import refuse_if_held
from t1cli.run.measured import read_measured
from t1cli.run.record import RunRecord
from t1cli.spec.command_line import command_line, with_settings
from t1cli.spec.load import LoadedSpec

_LONGEST_NAME = 64


@dataclass(frozen=True)
class EvaluationRequest:
    """What is to be evaluated, and how it is run."""

    loaded: LoadedSpec
    checkpoint: str
    options: LaunchOptions
    backend: Backend | None = None
    """Null: a job of slime."""

    @property
    def evaluator(self) -> Backend:
        return self.backend or SlimeEvaluation(self.checkpoint)


def evaluate_as_job(request: EvaluationRequest, dialogue: Dialogue) -> EvaluationAnswer:
    """Submit, follow to the end, collect. The same request follows a job of it that nobody follows any more.

    Raises Refused as a launch does, CouldNotAsk when the answer does not arrive, and whatever ended the job.
    """
    loaded = evaluation_of(request.loaded)
    record = _run(request, loaded, dialogue)
    run = RunDirectory(Path(record.run_dir))
    found = read_measured(run.path, run.job_log)
    if found is None:
        logs = command_line("logs", str(run.path))
        raise CouldNotAsk(
            f"job {record.job_id} left no whole answer behind",
            where=str(run.path),
            hint=f"`{logs}` shows its log; while the job runs, the same command follows it again",
        )
    assert loaded.spec.evaluation is not None
    return summarise(loaded.spec.evaluation.name, request.checkpoint, found)


def evaluation_command(request: EvaluationRequest) -> dict[str, Any]:
    """slime's eval-only run of a checkpoint (`--num-rollout 0`) as it would be submitted. Starts nothing."""
    loaded = evaluation_of(request.loaded)
    backend = request.evaluator
    gated = sort_out(backend.refusals(loaded), request.options.accepted)
    said = backend.invocation(loaded, next_attempt(_campaign(request, loaded)))
    return {
        "format_version": FORMAT_VERSION,
        "argv": list(said.argv),
        "env": dict(said.env),
        "job": None if said.job is None else dict(said.job),
        "refusals": [refusal.to_json() for refusal in gated.refusing],
    }


def evaluation_of(loaded: LoadedSpec) -> LoadedSpec:
    """The spec under the evaluation's own name and directories. Raises BadInput when it says nothing to measure by."""
    if loaded.spec.evaluation is None:
        raise BadInput("the spec has no `evaluation` block: there is nothing to measure by", where=str(loaded.path))
    name = loaded.spec.name[: _LONGEST_NAME - len(SUFFIX)] + SUFFIX
    # The campaign's own directories hold its checkpoints and their scores; this run adds to neither.
    checkpoint = loaded.spec.checkpoint.model_copy(update={"actor_dir": None, "critic_dir": None})
    spec = loaded.spec.model_copy(update={"name": name, "checkpoint": checkpoint})
    return replace(loaded, spec=spec, overrides=with_settings(loaded.overrides, [f"name={name}"]))


def _campaign(request: EvaluationRequest, loaded: LoadedSpec) -> Path:
    return request.options.runs_root / loaded.spec.name


def _run(request: EvaluationRequest, loaded: LoadedSpec, dialogue: Dialogue) -> RunRecord:
    campaign, options, backend = _campaign(request, loaded), request.options, request.evaluator
    refuse_if_held(campaign, stop_command=stop_command(loaded, options))
    occupation = backend.occupation(campaign)
    if occupation is not None and occupation.lives:
        return _follow_again(request, loaded, dialogue, occupation)
    if occupation is not None and occupation.refusal is None:
        settle(loaded, options, dialogue, occupation)
    former = () if occupation is None or occupation.refusal is None else (occupation.refusal,)
    gated = sort_out([*former, *backend.refusals(loaded)], options.accepted)
    raise_for(gated.refusing, command=options.command)
    plan, nothing = plan_for(loaded), PreflightReport(loaded.spec.name, loaded.digest, ())
    accepted = tuple(sorted({*gated.accepted, *(options.accepted & DECIDED_AT_START)}))
    proposal = Proposal(next_attempt(campaign), backend.engine, plan, nothing, accepted, None)
    return Start(loaded, options, dialogue, backend, proposal).go()


def _follow_again(
    request: EvaluationRequest, loaded: LoadedSpec, dialogue: Dialogue, occupation: Occupation
) -> RunRecord:
    run = latest_attempt(_campaign(request, loaded))
    assert run is not None
    refuse_other(run, request.checkpoint, occupation.job_id, request.loaded)
    return reattach(loaded, replace(request.options, resume=True), dialogue, occupation)
