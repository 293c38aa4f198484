"""`t1 preflight SPEC`: probe the machine, the sandboxes and the tasks before anything starts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from t1cli.errors import ExitCode


def command(
    spec: Annotated[str, typer.Argument(help="Experiment file, its directory, or a shipped experiment's name.")],
    set_: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a value.")] = [],  # noqa: B006
    only: Annotated[list[str], typer.Option(help="Run this check or family only; may repeat.")] = [],  # noqa: B006
    strict: Annotated[bool, typer.Option(help="Warnings count as failures.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    runs_dir: Annotated[Path | None, typer.Option(help="Where run directories go.")] = None,
) -> int:
    """Probe the machine, the sandboxes and the tasks before anything starts; exit 1 when a check fails or breaks."""
    from t1cli.launch.attempts import runs_root
    from t1cli.plan.build import build_plan
    from t1cli.preflight.runner import run_preflight
    from t1cli.spec.load import load_experiment
    from t1cli.ui.json_view import print_object
    from t1cli.ui.preflight_view import print_check, print_summary

    started = time.monotonic()
    root = runs_root(runs_dir)
    loaded = load_experiment(Path(spec), set_)
    plan = build_plan(loaded)
    report = run_preflight(loaded, plan, runs_dir=root, only=only, progress=None if json else print_check)
    if json:
        print_object(report.to_json())
    else:
        print_summary(report, spec, seconds=time.monotonic() - started)
    warned = any(check.status == "warn" for check in report.checks)
    return ExitCode.YES if report.ready and not (strict and warned) else ExitCode.NO
