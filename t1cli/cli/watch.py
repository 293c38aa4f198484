"""`t1 watch SOURCE`: read a run's metrics, apply rules, say what is wrong; live, or over a finished run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from t1cli.errors import ExitCode

if TYPE_CHECKING:
    from t1cli.watch.engine import Alert
    from t1cli.watch.session import Session


def command(
    source: Annotated[str, typer.Argument(help="Run (name, name/attempt_N or path), or a .jsonl or .csv file.")],
    replay: Annotated[bool, typer.Option(help="Read what is there now and say what would have fired.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="JSON: one object a line live, exactly one with --replay.")
    ] = False,
    rules: Annotated[list[str], typer.Option(metavar="PACK", help="Rule pack instead of the spec's; may repeat.")] = [],  # noqa: B006
    gpus: Annotated[float, typer.Option(min=0, help="GPUs of the run, for GPU-hours.")] = 0.0,
    interval: Annotated[float, typer.Option(min=0.05, help="Seconds between two looks at a live run.")] = 1.0,
    allow_stop: Annotated[bool, typer.Option(help="Let a stop rule end the run after its next save.")] = False,
    runs_dir: Annotated[Path | None, typer.Option(help="Where run directories are.")] = None,
) -> int:
    """Apply rules to a run's metrics; exit 1 when a warning or stop rule fired, 3 when the source stays unreadable."""
    from t1cli.launch.attempts import runs_root
    from t1cli.watch.session import Session
    from t1cli.watch.sources.open_source import open_source

    opened = open_source(source, runs_root(runs_dir))
    session = Session(opened, rule_packs=rules, gpus=gpus)
    run = _run_json if json else _run_text
    return run(session, replay, interval, allow_stop)


def _run_text(session: Session, replay: bool, interval: float, allow_stop: bool) -> int:
    from t1cli.ui.watch_view import Lines, print_alert, print_blind, print_result, print_start
    from t1cli.watch.stop import StopAction

    lines = Lines(session.opened.total_rollouts)
    stop = StopAction(session.opened.run, allowed=allow_stop)
    listener = session.listener
    listener.blind = lambda error, seconds: print_blind(error.message, seconds)
    if replay:
        listener.alert = print_alert
        result = session.replay()
    else:

        def alarm(raised: Alert) -> None:
            print_alert(raised)
            stop.consider(raised)

        print_start(session.opened.name, session.packs, living=session.opened.run is not None)
        listener.row, listener.alert = lines.row, alarm
        result = session.follow(interval_seconds=interval)
        lines.close(session.engine.history)
    print_result(result)
    return ExitCode.YES if result.healthy else ExitCode.NO


def _run_json(session: Session, replay: bool, interval: float, allow_stop: bool) -> int:
    from t1cli.ui.json_view import print_object
    from t1cli.watch.result import FORMAT_VERSION
    from t1cli.watch.stop import StopAction

    if replay:
        result = session.replay()
        print_object(result.to_json())
        return ExitCode.YES if result.healthy else ExitCode.NO
    stop = StopAction(session.opened.run, allowed=allow_stop)

    def tell(kind: str, **fields: object) -> None:
        print_object({"format_version": FORMAT_VERSION, "kind": kind, **fields})

    def alert(raised: Alert) -> None:
        tell("alert", **asdict(raised))
        stop.consider(raised)

    session.listener.row = lambda row, _: tell("row", step=row.step, values=row.values)
    session.listener.alert = alert
    session.listener.blind = lambda error, seconds: tell("blind", reason=error.message, seconds=seconds)
    result = session.follow(interval_seconds=interval)
    tell("end", **{key: value for key, value in result.to_json().items() if key != "format_version"})
    return ExitCode.YES if result.healthy else ExitCode.NO
