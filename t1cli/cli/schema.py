"""`t1 schema`: the JSON Schemas that editors use, and the reference page of every key."""

from __future__ import annotations

from pathlib import Path

import typer

from t1cli.errors import BadInput, ExitCode

RULES_FILE = "rules.schema.json"


def command(
    output: Path | None = typer.Option(None, "--output", help="Write to this file instead of stdout."),
    install: bool = typer.Option(False, "--install", help="Write the schema here and say how files refer to it."),
    check: bool = typer.Option(False, "--check", help="Compare the committed schema and page with the code."),
    markdown: bool = typer.Option(False, "--markdown", help="The reference page of every key instead."),
    rules: bool = typer.Option(False, "--rules", help="The schema of rule packs of `t1 watch` instead."),
) -> int:
    """Print the JSON Schema of experiment files, or of rule packs."""
    from t1cli.spec.reference import reference_text
    from t1cli.spec.schema import SCHEMA_FILE, schema_text

    if check:
        return _check()
    text = reference_text() if markdown else _rules_schema() if rules else schema_text()
    if install and output is None:
        output = Path(RULES_FILE if rules else SCHEMA_FILE)
    if output is None:
        typer.echo(text, nl=False)
        return ExitCode.YES
    _write(output, text)
    if install:
        typer.echo(f"# yaml-language-server: $schema={output}")
        kind = "a rule pack" if rules else "an experiment"
        typer.echo(f"put this line (with the path from your file) at the top of {kind}", err=True)
    return ExitCode.YES


def _rules_schema() -> str:
    from t1cli.watch.pack_schema import pack_schema_text

    return pack_schema_text()


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}", str(path)) from error


def _check() -> int:
    from t1cli.spec.locate import data_root
    from t1cli.spec.reference import REFERENCE_FILE, reference_text
    from t1cli.spec.schema import SCHEMA_FILE, schema_text

    folder = data_root() / "docs" / "reference"
    if not folder.is_dir():
        raise BadInput("there is no docs/reference here: --check belongs to a checkout of t1")
    stale = 0
    for name, option, text in ((SCHEMA_FILE, "", schema_text()), (REFERENCE_FILE, "--markdown ", reference_text())):
        path = folder / name
        current = path.is_file() and path.read_text(encoding="utf-8") == text
        typer.echo(f"{name} {'is current' if current else 'differs from the code'}")
        if not current:
            stale += 1
            typer.echo(f"fix: t1 schema {option}--output docs/reference/{name}", err=True)
    return ExitCode.NO if stale else ExitCode.YES
