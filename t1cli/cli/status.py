"""`t1 status [RUN]`: where a run stands, in numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from t1cli.errors import BadInput


def command(
    run: Annotated[str | None, typer.Argument(help="Run: name, name/attempt_N or path. The newest by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    runs_dir: Annotated[Path | None, typer.Option(help="Where run directories are.")] = None,
) -> None:
    """Phases, rewards, checks passed, critic, log-prob gap, failed trials, and the next command."""
    from t1cli.run.attempts import find_run, newest_run, runs_root
    from t1cli.run.summary import summarize
    from t1cli.ui.json_view import print_object
    from t1cli.ui.status_view import print_status

    root = runs_root(runs_dir)
    found = find_run(run, root) if run else newest_run(root)
    if found is None:
        raise BadInput("no run yet", where=str(root), hint="`t1 launch SPEC` starts one; `--runs-dir` looks elsewhere")
    summary = summarize(found, trials=True)
    if json:
        print_object(summary.to_json())
    else:
        print_status(summary)
