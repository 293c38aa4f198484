"""Where a run stands, for people; also the closing summary of a launch."""

from __future__ import annotations

from t1cli.run.rollout_number import rollout_number
from t1cli.run.state import RunState
from t1cli.run.summary import FirstLast, RunSummary
from t1cli.run.what_changed import what_changed
from t1cli.ui.console import answer
from t1cli.ui.counted import counted
from t1cli.ui.moment import moment

_NEXT = 3
"""Commands that are proposed at most."""


def print_status(summary: RunSummary) -> None:
    """Sections in fixed order: head, phases, learning, trials, where it is, what comes next."""
    console = answer()
    planned = "?" if summary.rollouts_planned is None else summary.rollouts_planned
    console.print(
        f"{summary.name} attempt {summary.attempt}   {summary.state}   rollout {summary.rollouts_done}/{planned}"
        f"   {summary.engine} {summary.job_id}".rstrip()
    )
    if summary.detail:
        console.print(f"  {summary.detail}")
    _print_sessions(summary)
    _print_phases(summary)
    _print_learning(summary)
    _print_trials(summary)
    console.print(f"\nrun directory  {summary.run_dir}")
    print_outcome(summary)


def print_outcome(summary: RunSummary, *, asked: str = "status") -> None:
    """What the run changed, in a sentence, and what to do next beside the command that was `asked`."""
    console = answer()
    if (changed := what_changed(summary)) and summary.state is RunState.FINISHED:
        console.print(changed)
    if summary.rollouts_without_signal:
        newest = counted(summary.rollouts_without_signal, "rollout")
        console.print(f"! no trial of the last {newest} differs in reward from another of its task:")
        console.print("  nothing can be learnt from them; tasks that are sometimes solved can teach")
    commands = [command for command in summary.next_commands if not command.startswith(f"t1 {asked} ")][:_NEXT]
    for number, command in enumerate(commands):
        console.print(f"{'' if number else 'Next:':<5} {command}", soft_wrap=True)


def _print_sessions(summary: RunSummary) -> None:
    if not summary.resumed:
        return
    last = summary.resumed[-1]
    times = counted(len(summary.resumed), "time")
    at = f"{moment(last.at)} at rollout {rollout_number(last.rollout)}"
    answer().print(f"  began {moment(summary.began)}, resumed {times}, last {at}")


def _print_phases(summary: RunSummary) -> None:
    if not summary.phases:
        return
    console = answer()
    console.print(f"\n  {'phase':<22}{'times':>6}{'wall s':>10}{'CPU s':>10}")
    for phase in summary.phases:
        console.print(f"  {phase.phase:<22}{phase.times:>6}{phase.wall_seconds:>10.1f}{phase.cpu_seconds:>10.1f}")


def _print_learning(summary: RunSummary) -> None:
    window = max(summary.reward.rollouts, summary.checks_passed.rollouts)
    if not window:
        return
    console = answer()
    console.print(f"\n  {f'mean over {window} rollouts':<22}{'first':>10}{'last':>10}")
    _line("reward", summary.reward)
    _line("checks passed", summary.checks_passed)
    _line("check rate", summary.check_rate)
    _line("explained variance", summary.explained_variance)
    _line("log-prob gap", summary.logprob_gap, digits=5)


def _line(name: str, values: FirstLast, *, digits: int = 3) -> None:
    if values.first is not None and values.last is not None:
        answer().print(f"  {name:<22}{values.first:>10.{digits}f}{values.last:>10.{digits}f}")


def _print_trials(summary: RunSummary) -> None:
    if not summary.trials:
        return
    causes = ", ".join(f"{cause} {count}" for cause, count in summary.failed_by_cause.items())
    failed = f"{summary.trials_failed} failed" + (f" ({causes})" if causes else "")
    answer().print(f"\n  trials  {summary.trials} run, {failed}")
    saved = summary.last_checkpoint_rollout
    if saved is not None:
        answer().print(f"  saved   {counted(summary.checkpoints, 'checkpoint')}, the last after rollout {saved}")
