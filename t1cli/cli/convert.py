"""`t1 convert`: a slime launch script as a spec, without running it, and a spec as a script."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from t1cli.errors import BadInput, ExitCode
from t1cli.ui.output_file import is_stdout, put

if TYPE_CHECKING:
    from t1cli.slime.script.bash.state import Note, Unknown
    from t1cli.slime.script.to_spec import Converted

FORMAT_VERSION = 1


def command(
    source: Annotated[str, typer.Argument(metavar="SCRIPT", help="A slime launch script; with --to script, a spec.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write here instead of stdout.")] = None,
    set_: Annotated[list[str], typer.Option("--set", metavar="VAR=VALUE", help="What the environment gives.")] = [],  # noqa: B006
    to: Annotated[str, typer.Option(help="`spec` or `script`.")] = "spec",
    slime_version: Annotated[str, typer.Option(help="slime version that the script is for.")] = "0.3.0",
    allow: Annotated[list[Path], typer.Option(help="A further directory that `source` may read.")] = [],  # noqa: B006
    force: Annotated[bool, typer.Option(help="Replace an output that somebody has edited.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Convert between slime launch scripts and specs; exit 1 with the lines that need help."""
    if to not in ("spec", "script"):
        raise BadInput(f"--to {to}", "--to", "spec or script")
    if output is not None and is_stdout(output):
        output = None
    if to == "script":
        return _to_script(source, set_, output, force=force)
    _refuse_experiment(source)
    from t1cli.slime.script.convert_file import convert_file
    from t1cli.slime.script.read_script import NotRead
    from t1cli.slime.script.signed import signed

    found = convert_file(Path(source), _variables(set_), version=slime_version, allowed=allow)
    if isinstance(found, NotRead):
        _say_needs(source, found.reasons, as_json=json)
        return ExitCode.NO
    text = signed(found.text, after=1)
    if output is not None or not json:
        _put(text, output, force=force)
    _say_converted(replace(found, text=text), output, as_json=json)
    return ExitCode.YES


def _refuse_experiment(source: str) -> None:
    """Raises BadInput for a spec: that converts the other way."""
    from t1cli.spec.command_line import command_line
    from t1cli.spec.locate import experiment_names

    path = Path(source)
    if path.suffix in (".yaml", ".yml") or path.is_dir() or (source in experiment_names() and not path.exists()):
        hint = f"`{command_line('convert', source, '--to', 'script')}` makes a script of it"
        raise BadInput(f"{source} is an experiment, not a launch script", source, hint)


def _to_script(source: str, overrides: list[str], output: Path | None, *, force: bool) -> int:
    from t1cli.slime.script.signed import signed
    from t1cli.slime.script.to_script import script_text
    from t1cli.spec.load import load_experiment

    loaded = load_experiment(Path(source), overrides)
    if loaded.spec.engine.kind != "slime":
        where = loaded.where("engine.kind")
        raise BadInput("only campaigns on the slime engine have a script", where, "--set engine.kind=slime")
    _put(signed(script_text(loaded.spec, source=source), after=2), output, force=force)
    return ExitCode.YES


def _variables(texts: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise BadInput(f"`{text}` is no VAR=VALUE", "--set", "for example --set MASTER_ADDR=10.0.0.1")
        found[name] = value
    return found


def _put(text: str, output: Path | None, *, force: bool) -> None:
    from t1cli.slime.script.signed import is_unedited

    hint = "name another file, or replace it with --force"
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
    put(text, output or Path("-"), ours=is_unedited, force=force, hint=hint)


def _say_needs(source: str, reasons: tuple[Note, ...], *, as_json: bool) -> None:
    if as_json:
        _print({"converted": False, "script": source, "needs": [_note(reason) for reason in reasons]})
        return
    typer.echo(f"{source} was not converted:", err=True)
    for reason in reasons:
        typer.echo(f"  {reason.where}: {reason.message}", err=True)


def _say_converted(found: Converted, output: Path | None, *, as_json: bool) -> None:
    if as_json:
        answer: dict[str, Any] = {
            "converted": True,
            "spec": found.text if output is None else str(output),
            "arguments": found.arguments,
            "slime_args": list(found.escaped),
            "leave_out": list(found.left_out),
            "placeholders": [_unknown(unknown) for unknown in found.unknowns],
            "notes": [_note(note) for note in found.notes],
        }
        _print(answer)
        return
    share = f"{found.arguments} arguments, {len(found.escaped)} of them in slime_args"
    typer.echo(f"{share}{f'; wrote {output}' if output is not None else ''}", err=True)
    for unknown in found.unknowns:
        typer.echo(f"  {unknown.where}: <{unknown.name}> is {unknown.reason}; {unknown.remedy}", err=True)
    for note in found.notes:
        typer.echo(f"  {note.where}: {note.message}", err=True)


def _note(note: Note) -> dict[str, str]:
    return {"where": note.where, "message": note.message}


def _unknown(unknown: Unknown) -> dict[str, str]:
    return {"name": unknown.name, "where": unknown.where, "reason": unknown.reason, "fix": unknown.remedy}


def _print(answer: dict[str, Any]) -> None:
    from t1cli.ui.json_view import print_object

    print_object({"format_version": FORMAT_VERSION, **answer})
