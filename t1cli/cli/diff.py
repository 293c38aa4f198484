"""`t1 diff RUN RUN`: what differs between two runs in spec, code and environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from t1cli.errors import ExitCode


def command(
    old: Annotated[str, typer.Argument(metavar="RUN", help="Run: name, name/attempt_N or path.")],
    new: Annotated[str, typer.Argument(metavar="RUN", help="The run to compare with it.")],
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    runs_dir: Annotated[Path | None, typer.Option(help="Where run directories are.")] = None,
) -> int:
    """Every value that differs, old and new, with where the new one comes from; exit 1 when something differs."""
    from t1cli.run.attempts import find_run, runs_root
    from t1cli.run.diff import diff_runs
    from t1cli.ui.diff_view import print_diff
    from t1cli.ui.json_view import print_object

    root = runs_root(runs_dir)
    found = diff_runs(find_run(old, root), find_run(new, root))
    if json:
        print_object(found.to_json())
    else:
        print_diff(found)
    return ExitCode.NO if found.changes else ExitCode.YES
