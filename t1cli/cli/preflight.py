"""`t1 preflight SPEC`: probe the machine, the cluster, the sandboxes and the tasks before anything starts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from t1cli.errors import ExitCode

if TYPE_CHECKING:
    from t1cli.preflight.report import CheckResult, PreflightReport


def command(  # noqa: PLR0913 - each option of the command line is one parameter
    spec: Annotated[str, typer.Argument(help="Experiment file, its directory, or a shipped experiment's name.")],
    set_: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a value.")] = [],  # noqa: B006
    only: Annotated[list[str], typer.Option(help="Run this check or family only; may repeat.")] = [],  # noqa: B006
    skip: Annotated[list[str], typer.Option(help="Leave this check or family out; may repeat.")] = [],  # noqa: B006
    strict: Annotated[bool, typer.Option(help="Warnings count as failures.")] = False,
    fresh: Annotated[bool, typer.Option(help="Ask again what was kept from an earlier preflight.")] = False,
    watch: Annotated[bool, typer.Option(help="Repeat until nothing fails; Ctrl-C ends it.")] = False,
    every: Annotated[float, typer.Option(min=1.0, metavar="SECONDS", help="Pause between repeats.")] = 15.0,
    show_all: Annotated[bool, typer.Option("--all", help="Show checks that do not apply, too.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    runs_dir: Annotated[Path | None, typer.Option(help="Where run directories go.")] = None,
) -> int:
    """Probe the machine or the cluster, the sandboxes and the tasks; exit 1 when a check fails or breaks."""
    from t1cli.plan.build import build_plan
    from t1cli.preflight.repeat import until_green
    from t1cli.preflight.runner import run_preflight
    from t1cli.run.attempts import runs_root
    from t1cli.spec.load import load_experiment
    from t1cli.ui.json_view import print_object
    from t1cli.ui.preflight_view import print_check, print_skipped, print_summary
    from t1cli.watch.of_spec import check_watch_block

    started, root = time.monotonic(), runs_root(runs_dir)
    loaded = load_experiment(Path(spec), set_)
    check_watch_block(loaded)
    plan = build_plan(loaded)
    rounds = 0

    def tell(result: CheckResult) -> None:
        if not rounds and not json and (show_all or only or result.status != "skipped"):
            print_check(result)

    def ask() -> PreflightReport:
        nonlocal rounds
        report = run_preflight(loaded, plan, runs_dir=root, only=only, skip=skip, fresh=fresh, progress=tell)
        rounds += 1
        return report

    def green(report: PreflightReport) -> bool:
        return report.ready and not (strict and report.warned)

    def again(command: str, *more: str) -> str:
        return loaded.again(command, *more, runs_dir=None if command == "plan" else runs_dir)

    report = until_green(
        ask,
        every_seconds=every,
        is_green=green if watch else lambda _: True,
        changed=(lambda _: None) if json else print_check,
    )
    if json:
        print_object(report.to_json())
    else:
        if not (show_all or only):
            print_skipped(report)
        print_summary(report, plan, again, strict=strict, seconds=time.monotonic() - started)
    return ExitCode.YES if green(report) else ExitCode.NO
