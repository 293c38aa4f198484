"""`t1 logs RUN`: what a run has written, once or as it goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[str, typer.Argument(help="Run: name, name/attempt_N or path.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as the log grows, until the run ends.")] = False,
    file: Annotated[str, typer.Option(help="Which file under logs/.")] = "campaign.log",
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Last lines to begin with.")] = 200,
    json: Annotated[bool, typer.Option("--json", help="One JSON object: the files and the last lines.")] = False,
    runs_dir: Annotated[Path | None, typer.Option(help="Where run directories are.")] = None,
) -> None:
    """Print a run's log."""
    from t1cli.errors import BadInput
    from t1cli.run.attempts import find_run, runs_root
    from t1cli.run.lock import runs_now
    from t1cli.run.log_tail import FORMAT_VERSION, choose_log, last_lines, log_files
    from t1cli.run.log_tail import follow as follow_log
    from t1cli.ui.json_view import print_object
    from t1cli.ui.runs_view import print_line
    from t1cli.ui.streams import leave_when_unread

    if json and follow:
        raise BadInput("--json answers once: it does not go with --follow", where="--json")
    if follow:
        leave_when_unread()
    found = find_run(run, runs_root(runs_dir))
    chosen = choose_log(found, file)
    if json:
        files = [{"path": str(path), "bytes": path.stat().st_size} for path in log_files(found)]
        shown = list(last_lines(chosen, lines))
        print_object(
            {
                "format_version": FORMAT_VERSION,
                "run_dir": str(found.path),
                "files": files,
                "file": str(chosen),
                "lines": shown,
            }
        )
        return
    text = follow_log(chosen, count=lines, goes_on=lambda: runs_now(found)) if follow else last_lines(chosen, lines)
    for line in text:
        print_line(line)
