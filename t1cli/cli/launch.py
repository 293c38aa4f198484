"""`t1 launch SPEC`: the gates, then the run; or what would run, or the end of one that runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from t1cli.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from t1cli.launch.proposal import LaunchOptions
    from t1cli.spec.load import LoadedSpec


def command(  # noqa: PLR0913 - each option of the command line is one parameter
    spec: Annotated[str, typer.Argument(help="Experiment file, its directory, or a shipped experiment's name.")],
    set_: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a value.")] = [],  # noqa: B006
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Start without asking.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Show what would run; start and write nothing.")] = False,
    resume: Annotated[bool, typer.Option(help="Continue the latest attempt from its last checkpoint.")] = False,
    stop: Annotated[bool, typer.Option(help="Ask the running campaign to end after its next save.")] = False,
    now: Annotated[bool, typer.Option(help="With --stop: interrupt it at once.")] = False,
    detach: Annotated[bool, typer.Option(help="Return at once; the campaign runs in a session of its own.")] = False,
    accept: Annotated[list[str], typer.Option(metavar="ID", help="Override a refusal; recorded. May repeat.")] = [],  # noqa: B006
    runs_dir: Annotated[Path | None, typer.Option(help="Where run directories go.")] = None,
) -> int:
    """Start a campaign once plan and preflight allow it; exit 1 when something refuses."""
    from t1cli.catalogue.acceptable import refuse_unknown
    from t1cli.launch.proposal import LaunchOptions
    from t1cli.run.attempts import runs_root
    from t1cli.spec.load import load_experiment
    from t1cli.watch.of_spec import check_watch_block

    _refuse_contradictions(dry_run=dry_run, resume=resume, stop=stop, now=now, detach=detach)
    if accept:
        refuse_unknown(accept)
    loaded = load_experiment(Path(spec), set_)
    check_watch_block(loaded)
    options = LaunchOptions(
        runs_root=runs_root(runs_dir),
        command=loaded.again("launch", *_flags(accept, resume=resume, detach=detach), runs_dir=runs_dir),
        accepted=frozenset(accept),
        assume_yes=yes,
        resume=resume,
        detach=detach,
    )
    if stop:
        return _stop(options.runs_root / loaded.spec.name, now=now, as_json=json)
    return _dry_run(loaded, options, as_json=json) if dry_run else _launch(loaded, options, as_json=json)


def _refuse_contradictions(*, dry_run: bool, resume: bool, stop: bool, now: bool, detach: bool) -> None:
    if now and not stop:
        raise BadInput("--now says how to stop: it needs --stop", where="--now")
    if stop and (dry_run or resume or detach):
        raise BadInput("--stop ends a campaign: it goes with --now and --json only", where="--stop")


def _flags(accepted: list[str], *, resume: bool, detach: bool) -> list[str]:
    accepts = [word for id_ in accepted for word in ("--accept", id_)]
    return [*(["--resume"] if resume else []), *(["--detach"] if detach else []), *accepts]


def _launch(loaded: LoadedSpec, options: LaunchOptions, *, as_json: bool) -> int:
    from t1cli.launch.launch import launch
    from t1cli.run.directory import RunDirectory
    from t1cli.run.summary import summarize
    from t1cli.ui.launch_dialogue import JsonDialogue, TextDialogue
    from t1cli.ui.launch_view import print_next_aside
    from t1cli.ui.status_view import print_status

    if as_json:
        launch(loaded, options, JsonDialogue())
        return ExitCode.YES
    dialogue = TextDialogue(detached=options.detach)
    try:
        record = launch(loaded, options, dialogue)
    except BaseException:
        if dialogue.run_dir is not None:
            print_next_aside(summarize(RunDirectory(Path(dialogue.run_dir))))
        raise
    if not options.detach:
        print_status(summarize(RunDirectory(Path(record.run_dir)), trials=True))
    return ExitCode.YES


def _dry_run(loaded: LoadedSpec, options: LaunchOptions, *, as_json: bool) -> int:
    from t1cli.launch.dry_run import dry_run
    from t1cli.ui.json_view import print_object
    from t1cli.ui.launch_view import print_dry_run

    found = dry_run(loaded, options)
    if as_json:
        print_object(found.to_json())
    else:
        print_dry_run(found)
    return ExitCode.YES if found.would_start else ExitCode.NO


def _stop(campaign: Path, *, now: bool, as_json: bool) -> int:
    from t1cli.launch.stop import stop_after_next_save, stop_now
    from t1cli.ui.json_view import print_object
    from t1cli.ui.launch_view import print_stop

    answer = stop_now(campaign) if now else stop_after_next_save(campaign)
    if as_json:
        print_object(answer.to_json())
    else:
        print_stop(answer)
    return ExitCode.YES if answer.ended or not now else ExitCode.NO
