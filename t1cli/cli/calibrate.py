"""`t1 calibrate LOG|RUN…`: fit the memory model's unknowns to readings, and keep them as an overlay for plans."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from t1cli.errors import ExitCode

if TYPE_CHECKING:
    from t1cli.plan.calibrate import Source
    from t1cli.spec.load import LoadedSpec


def command(
    sources: Annotated[list[str], typer.Argument(metavar="LOG|RUN...", help="Log files, directories of logs, runs.")],
    spec: Annotated[str | None, typer.Option(metavar="SPEC", help="The experiment that wrote the logs.")] = None,
    set_: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a value of SPEC.")] = [],  # noqa: B006
    role: Annotated[Literal["actor", "critic"], typer.Option(help="Whose memory was read.")] = "actor",
    output: Annotated[Path | None, typer.Option(metavar="OVERLAY", help="Write the fit to this .json file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    runs_dir: Annotated[Path | None, typer.Option(help="Where run directories are.")] = None,
) -> int:
    """Say which coefficients the readings move and what that does to readings held back; exit 1 if it makes them worse.

    Runs bring their own spec; logs need --spec.
    """
    from t1cli.plan.calibrate import calibrate_sources, calibration_text
    from t1cli.ui.calibrate_view import print_calibration
    from t1cli.ui.json_view import print_object
    from t1cli.ui.output_file import is_stream, put, refuse_two_answers

    refuse_two_answers(output, as_json=json)
    found, fit = calibrate_sources(_sources(sources, spec, set_, runs_dir), role)
    written = output if output is not None and found.accepted else None
    if written is not None and not is_stream(written):
        written = written.resolve()
    if written is not None:
        put(calibration_text(found, fit), written, ours=lambda former: '"coefficients"' in former)
    exit_code = ExitCode.YES if found.accepted else ExitCode.NO
    if json:
        print_object(found.to_json(written))
    else:
        print_calibration(found, output=written, spec=spec or "SPEC", exit_code=exit_code, overrides=set_)
    return exit_code


def _sources(names: list[str], spec: str | None, overrides: list[str], runs_dir: Path | None) -> list[Source]:
    """Every source with its spec. BadInput names all that do not exist, or have no spec."""
    from t1cli.errors import BadInput, Diagnostic
    from t1cli.plan.calibrate import Source
    from t1cli.spec.command_line import command_line
    from t1cli.spec.load import load_experiment

    given = load_experiment(Path(spec), overrides) if spec is not None else None
    found: list[Source] = []
    problems: list[Diagnostic] = []
    for name in dict.fromkeys(names):
        path, own = _find(name, runs_dir)
        loaded = own or given
        if path is None:
            hint = f"`{command_line('runs', runs_dir=runs_dir)}` lists runs"
            problems.append(Diagnostic("no log, directory or run by this name", name, hint=hint))
        elif loaded is None:
            hint = "`--spec SPEC` names the experiment that wrote it"
            problems.append(Diagnostic("not a run of t1, so what wrote it is unknown", name, hint=hint))
        else:
            found.append(Source(path, loaded))
    if problems:
        raise BadInput.many(tuple(problems))
    return found


def _find(name: str, runs_dir: Path | None) -> tuple[Path | None, LoadedSpec | None]:
    """The path of a source, and the spec of a run."""
    from t1cli.errors import BadInput
    from t1cli.run.attempts import find_run, runs_root
    from t1cli.spec.load import load_experiment

    path = Path(name)
    if path.is_file():
        return path, None
    try:
        run = find_run(name, runs_root(runs_dir))
    except BadInput:
        return (path if path.is_dir() else None), None
    return run.path, load_experiment(run.spec_yaml) if run.spec_yaml.is_file() else None
