"""`t1 report RUN`: one self-contained HTML page, or curves in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[str, typer.Argument(help="Run: name, name/attempt_N or path.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where the page goes.")] = None,
    terminal: Annotated[bool, typer.Option("--terminal", help="Curves on stdout instead of a page.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object: where the page is.")] = False,
    runs_dir: Annotated[Path | None, typer.Option(help="Where run directories are.")] = None,
) -> None:
    """Write one HTML page about a run: curves with alerts, outcomes, ledger, evaluation, trajectories, rules."""
    from t1cli.records import write_text
    from t1cli.report.facts import gather
    from t1cli.report.page import page
    from t1cli.run.attempts import find_run, runs_root
    from t1cli.ui.json_view import print_object
    from t1cli.ui.output_file import is_stdout, put, refuse_two_answers
    from t1cli.ui.report_view import print_curves, print_written
    from t1cli.watch.sources.open_source import open_source

    refuse_two_answers(output, as_json=json)
    found = find_run(run, runs_root(runs_dir))
    facts = gather(found, open_source(str(found.path), runs_root(runs_dir)))
    if terminal:
        print_curves(facts)
        return
    target = output or found.report_html
    text = page(facts, found)
    if output is None:
        write_text(target, text)
    else:
        output.parent.mkdir(parents=True, exist_ok=True)
        put(text, output, ours=lambda former: " - t1 report</title>" in former[:1000])
    if json:
        print_object({"format_version": 1, "page": str(target), "bytes": len(text.encode())})
    elif not is_stdout(target):
        print_written(target, len(text.encode()))
