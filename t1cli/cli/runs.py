"""`t1 runs`: what ran, how it ended, and how well."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from t1cli.errors import Diagnostic, ExitCode


def command(
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    runs_dir: Annotated[Path | None, typer.Option(help="Where run directories are.")] = None,
) -> int:
    """List every attempt of every campaign."""
    from t1cli.run.attempts import all_runs, runs_root
    from t1cli.run.summary import FORMAT_VERSION, summarize
    from t1cli.ui.console import print_diagnostics
    from t1cli.ui.json_view import print_object
    from t1cli.ui.runs_view import print_runs

    root = runs_root(runs_dir)
    summaries, unread = [], []
    for run in all_runs(root):
        try:
            summaries.append(summarize(run))
        except OSError as problem:
            # Of somebody else, say: one that cannot be read must not hide the others.
            unread.append(Diagnostic(f"cannot read this run: {problem.strerror}", str(problem.filename or run.path)))
    if json:
        runs = [{k: v for k, v in s.to_json().items() if k != "format_version"} for s in summaries]
        print_object({"format_version": FORMAT_VERSION, "runs_dir": str(root), "runs": runs})
    else:
        print_runs(summaries, root)
    print_diagnostics(tuple(unread))
    return ExitCode.COULD_NOT_ASK if unread else ExitCode.YES
