"""Launch: plan gate, preflight gate, question, backend. Nothing is written before the question is answered yes."""

from __future__ import annotations

from collections.abc import Sequence

from t1cli.errors import Refused
from t1cli.launch.backend import Backend
from t1cli.launch.gates import (
    DECIDED_AT_START,
    Gated,
    Refusal,
    plan_refusals,
    preflight_refusals,
    raise_for,
    sort_out,
    standing_refusals,
)
from t1cli.launch.proposal import Dialogue, LaunchOptions, Proposal, Stages, stop_command
from t1cli.launch.reattach import reattach, settle
from t1cli.launch.resume import attempt_to_resume, resume_refusals
from t1cli.launch.start import Start, redactor_for
from t1cli.run.attempts import latest_attempt, next_attempt
from t1cli.run.directory import RunDirectory
from t1cli.run.lock import refuse_if_held
from t1cli.run.record import RunRecord
from t1cli.run.run_files import grounded_spec, saved_spec, spec_differences
from t1cli.run.save_directories import newest_saved_rollout, save_directories
from t1cli.spec.load import LoadedSpec


def launch(loaded: LoadedSpec, options: LaunchOptions, dialogue: Dialogue, stages: Stages | None = None) -> RunRecord:
    """Start or resume a campaign; in the foreground, returns when it has ended.

    Raises Refused when a gate, the lock or the user says no, and whatever ended a foreground campaign.
    """
    stages = stages or Stages()
    campaign = options.runs_root / loaded.spec.name
    refuse_if_held(campaign, stop_command=stop_command(loaded, options))
    backend = stages.backend(loaded.spec)
    occupation = backend.occupation(campaign)
    if occupation is not None and occupation.lives and options.resume:
        return reattach(loaded, options, dialogue, occupation)
    if occupation is not None and occupation.refusal is None:
        settle(loaded, options, dialogue, occupation)
    former = () if occupation is None or occupation.refusal is None else (occupation.refusal,)
    proposal = _pass_gates(loaded, options, dialogue, stages, backend, former)
    if not options.assume_yes and not dialogue.ask(proposal):
        raise Refused("nothing was started: the answer was no")
    return Start(loaded, options, dialogue, backend, proposal).go()


def _pass_gates(
    loaded: LoadedSpec,
    options: LaunchOptions,
    dialogue: Dialogue,
    stages: Stages,
    backend: Backend,
    former: tuple[Refusal, ...],
) -> Proposal:
    run = _target(loaded, options)
    plan = stages.plan(loaded)
    before = _gate(
        options, [*former, *backend.refusals(loaded), *_static(loaded, run, options), *plan_refusals(plan, loaded)]
    )
    if not options.assume_yes and not dialogue.can_ask():
        raise Refused(
            "nothing was started: there is no terminal to ask on, and no --yes", hint=f"`{options.command} --yes`"
        )
    report = stages.preflight(loaded, plan, options.runs_root, dialogue.progress)
    after = _gate(options, preflight_refusals(report))
    accepted = tuple(sorted({*before.accepted, *after.accepted, *(options.accepted & DECIDED_AT_START)}))
    checkpoint = newest_saved_rollout(save_directories(loaded.spec, run)) if options.resume else None
    for unused in sorted(options.accepted - set(accepted)):
        dialogue.progress(f"--accept {unused}: nothing refused under this ID")
    return Proposal(run, backend.engine, plan, report, accepted, checkpoint, _changes(loaded, options))


def _target(loaded: LoadedSpec, options: LaunchOptions) -> RunDirectory:
    campaign = options.runs_root / loaded.spec.name
    return attempt_to_resume(campaign, loaded)[0] if options.resume else next_attempt(campaign)


def _changes(loaded: LoadedSpec, options: LaunchOptions) -> dict[str, tuple[object, object]]:
    latest = latest_attempt(options.runs_root / loaded.spec.name)
    before = saved_spec(latest) if latest else {}
    now = redactor_for(loaded).json(grounded_spec(loaded).model_dump(mode="json"))
    return spec_differences(before, now) if before else {}


def _static(loaded: LoadedSpec, run: RunDirectory, options: LaunchOptions) -> tuple[Refusal, ...]:
    return (*standing_refusals(loaded, run), *(resume_refusals(loaded, run) if options.resume else ()))


def _gate(options: LaunchOptions, refusals: Sequence[Refusal]) -> Gated:
    gated = sort_out(refusals, options.accepted)
    raise_for(gated.refusing, command=options.command)
    return gated
