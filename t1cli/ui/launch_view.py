"""What `t1 launch` answers, as text and as JSON."""

from __future__ import annotations

import shlex
from typing import Any

from t1cli.launch.dry_run import DryRun
from t1cli.launch.stop import StopAnswer
from t1cli.run.record import FORMAT_VERSION, RunRecord
from t1cli.run.rollout_number import rollout_number
from t1cli.run.summary import RunSummary
from t1cli.spec.command_line import command_line
from t1cli.ui.console import answer, aside
from t1cli.ui.counted import counted


def started_object(record: RunRecord) -> dict[str, Any]:
    """The JSON answer of a launch."""
    return {
        "format_version": FORMAT_VERSION,
        "run_dir": record.run_dir,
        "attempt": record.attempt,
        "engine": record.engine,
        "job_id": record.job_id,
        "session": record.session.number,
        "resumed_from_rollout": record.session.resumed_from_rollout,
    }


def print_started(record: RunRecord, *, detached: bool) -> None:
    """Where the run is, and the next command when it runs elsewhere."""
    console = answer()
    resumed = record.session.resumed_from_rollout
    again = f"   from rollout {rollout_number(resumed or 0)}" if record.session.number > 1 else ""
    console.print(f"✓ run {record.run_dir}   attempt {record.attempt}   {record.engine} {record.job_id}{again}")
    if detached:
        console.print(f"Next: {command_line('watch', record.run_dir)}", soft_wrap=True)


def print_next_aside(summary: RunSummary) -> None:
    """After a run that did not end well: where it stands and the next command, on stderr."""
    aside().print(
        f"{summary.name} attempt {summary.attempt} {summary.state} after {counted(summary.rollouts_done, 'rollout')}"
    )
    aside().print(f"Next: {summary.next_command}", soft_wrap=True)


def print_dry_run(found: DryRun) -> None:
    """Command, environment, role file, then what refuses."""
    console = answer()
    console.print(f"{found.name}   plan {found.digest} {found.verdict}   engine {found.engine}")
    console.print(f"run   {found.run_dir}")
    if found.invocation.evaluation_argv is not None:
        console.print(f"first {shlex.join(found.invocation.evaluation_argv)}")
    console.print(f"argv  {shlex.join(found.invocation.argv)}")
    for name, value in found.invocation.env.items():
        console.print(f"env   {name}={value}")
    if found.invocation.role_file is not None:
        for role in found.invocation.role_file["megatron"]:
            overrides = ", ".join(f"{key}={value}" for key, value in role["overrides"].items())
            console.print(f"role  {role['role']}: {overrides}")
    for note in found.notes:
        console.print(f"- {note}")
    for refusal in found.refusals:
        console.print(f"✗ {refusal.id}: {refusal.message}")
        if refusal.where:
            console.print(f"  --> {refusal.where}")
        if refusal.fix:
            console.print(f"  fix: {refusal.fix}")
    console.print(
        "nothing refuses so far"
        if found.would_start
        else f"{counted(len(found.refusals), 'refusal')}: it would not start"
    )


def print_stop(stop: StopAnswer) -> None:
    """What was asked of the process, and when it takes effect."""
    console = answer()
    what = f"job {stop.job_id}" if stop.job_id else f"process {stop.pid}"
    if stop.how == "now":
        ended = "has ended" if stop.ended else "was interrupted but has not ended yet"
        console.print(f"{what} of {stop.run_dir} {ended}, {counted(stop.rollouts_done, 'rollout')} done")
        if stop.lost_rollouts:
            first, last = stop.lost_rollouts[0], stop.lost_rollouts[-1]
            console.print(
                f"lost: everything since the last save, rollouts {rollout_number(first)} to {rollout_number(last)}"
            )
    else:
        at = "its next save" if stop.stops_after_rollouts is None else f"rollout {stop.stops_after_rollouts}"
        seconds = stop.seconds_until_then
        when = "" if seconds is None else f", in about {seconds:.0f} s"
        console.print(f"asked {what} to stop after {at}{when} ({stop.rollouts_done} done)")
    console.print(f"Next: {command_line('status', stop.run_dir)}", soft_wrap=True)
