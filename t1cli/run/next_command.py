"""Commands about a run that work from anywhere: they name its directory, and its own copy of the spec."""

from __future__ import annotations

from t1cli.records import read_json
from t1cli.run.directory import RunDirectory
from t1cli.run.record import RunRecord
from t1cli.run.run_files import saved_spec
from t1cli.run.state import RunState, Standing
from t1cli.spec.command_line import command_line


def next_command(run: RunDirectory, now: Standing, record: RunRecord | None) -> str:
    """What a person does next about a run in this state."""
    where = str(run.path)
    if now.state is RunState.RUNNING:
        return command_line("watch", where)
    if now.state is RunState.FINISHED:
        return command_line("watch", where, "--replay")
    if now.state is RunState.FAILED:
        return command_line("logs", where)
    if now.state is RunState.UNKNOWN and now.pid is not None:
        return command_line("logs", where, "--follow")
    return resume_command(run, record)


def next_commands(run: RunDirectory, now: Standing, record: RunRecord | None) -> tuple[str, ...]:
    """All that makes sense next: after a finished run the ways to look at it, otherwise the one command."""
    if now.state is not RunState.FINISHED:
        return (next_command(run, now, record),)
    where = str(run.path)
    measured = isinstance(saved_spec(run).get("evaluation"), dict)
    judged = (command_line("eval", where, str(run.spec_yaml)),) if measured else ()
    looked = (command_line("report", where), command_line("audit", where), *judged)
    return (*looked, next_command(run, now, record), command_line("status", where))


def resume_command(run: RunDirectory, record: RunRecord | None) -> str:
    """Goes on with a run, with what was set when it began."""
    # A spec that was changed by --set is resumed from the run's own copy, which has the changes in it.
    spec = str(run.spec_yaml) if record is None or _changed_by_set(run) else record.spec_path
    return _launch(run, spec, "--resume")


def stop_command(run: RunDirectory) -> str:
    """Ends the campaign of a run after its next save."""
    return _launch(run, str(run.spec_yaml), "--stop")


def _launch(run: RunDirectory, spec: str, option: str) -> str:
    return command_line("launch", spec, runs_dir=run.path.parent.parent, more=[option])


def _changed_by_set(run: RunDirectory) -> bool:
    origins = (read_json(run.origins_json) or {}).values()
    return any(isinstance(origin, dict) and origin.get("where") == "--set" for origin in origins)
