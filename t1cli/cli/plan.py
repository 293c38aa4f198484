"""`t1 plan SPEC`: memory, host RAM, disk, schedule, pool and findings, before anything is booked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from t1cli.errors import ExitCode

if TYPE_CHECKING:
    from t1cli.plan.plan import Plan
    from t1cli.spec.load import LoadedSpec


def command(
    spec: Annotated[
        str, typer.Argument(help="Experiment file, its directory, a shipped experiment, or a slime script.")
    ],
    set_: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a value.")] = [],  # noqa: B006
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    strict: Annotated[bool, typer.Option(help="TIGHT counts as no.")] = False,
    explain: Annotated[str | None, typer.Option(metavar="KEY", help="Show where a value came from.")] = None,
    diff: Annotated[str | None, typer.Option(metavar="PLAN_OR_SPEC", help="Compare with a plan, run or spec.")] = None,
    search: Annotated[bool, typer.Option(help="List layouts that fit, best first.")] = False,
    plot: Annotated[bool, typer.Option(help="Draw the terms of every stage and phase.")] = False,
) -> int:
    """Answer whether a campaign fits and what is wrong with it; exit 0 yes, 1 no."""
    from t1cli.plan.build import build_plan
    from t1cli.spec.load import load_experiment
    from t1cli.spec.locate import is_script
    from t1cli.watch.of_spec import check_watch_block

    loaded = _load_script(spec, set_) if is_script(Path(spec)) else load_experiment(Path(spec), set_)
    check_watch_block(loaded)
    if search:
        return _search(loaded, spec, set_, as_json=json)
    plan = build_plan(loaded, source=spec)
    if explain is not None:
        return _explain(loaded, plan, explain, as_json=json)
    if diff is not None:
        return _diff(loaded, plan, diff, as_json=json)
    accepted = plan.accepted_for_launch and not (strict and plan.verdict == "TIGHT")
    exit_code = ExitCode.YES if accepted else ExitCode.NO
    if plot and not json:
        from t1cli.ui.memory_plot import print_plot

        print_plot(plan)
    else:
        _show(plan, exit_code, set_, strict=strict, as_json=json)
    return exit_code


def _load_script(script: str, overrides: list[str]) -> LoadedSpec:
    from t1cli.slime.script.convert_file import load_script

    return load_script(Path(script), overrides)


def _show(plan: Plan, exit_code: ExitCode, overrides: list[str], *, strict: bool, as_json: bool) -> None:
    if as_json:
        from t1cli.ui.json_view import print_object

        print_object(plan.to_json())
    else:
        from t1cli.ui.plan_view import print_plan

        print_plan(plan, exit_code=exit_code, overrides=overrides, strict=strict)


def _explain(loaded: LoadedSpec, plan: Plan, key: str, *, as_json: bool) -> int:
    from t1cli.plan.explain import explain, to_json
    from t1cli.ui.json_view import print_object
    from t1cli.ui.plan_extras_view import print_explained

    found = explain(loaded, plan, key)
    if as_json:
        print_object(to_json(found))
    else:
        print_explained(found)
    return ExitCode.YES


def _diff(loaded: LoadedSpec, plan: Plan, other: str, *, as_json: bool) -> int:
    from t1cli.plan.against import read_other
    from t1cli.plan.diff import compare_plans
    from t1cli.ui.json_view import print_object
    from t1cli.ui.plan_extras_view import print_diff

    old, old_loaded = read_other(other)
    changes = compare_plans(old, plan, specs=(old_loaded, loaded) if old_loaded else None)
    if as_json:
        print_object(changes.to_json())
    else:
        print_diff(changes)
    return ExitCode.YES


def _search(loaded: LoadedSpec, source: str, overrides: list[str], *, as_json: bool) -> int:
    from t1cli.plan.search import search_layouts
    from t1cli.ui.console import aside
    from t1cli.ui.json_view import print_object
    from t1cli.ui.search_progress import search_progress
    from t1cli.ui.search_view import print_search

    aside().print("searching every legal layout; large MoE models take up to a minute")
    with search_progress("layouts") as progress:
        answer = search_layouts(loaded, progress)
    if as_json:
        print_object(answer.to_json())
    else:
        print_search(answer, source=source, overrides=overrides)
    return ExitCode.YES if answer.found else ExitCode.NO
