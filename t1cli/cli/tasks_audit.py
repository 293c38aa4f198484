"""`t1 tasks audit`: the quality audit of a pool, and the best of its tasks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from t1cli.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from t1cli.terminal.tasks.audit.audit_pool import PoolAudit, TaskAudit
    from t1cli.terminal.tasks.audit.judge import Judge
    from t1cli.terminal.tasks.audit.rubric import Rubric
    from t1cli.terminal.tasks.audit.select import Choice

_SHOWN = 20


def audit(  # noqa: PLR0913 - each option of the command line is one parameter
    directory: Annotated[Path, typer.Argument(help="A pool: one directory per task, in Harbor's layout.")],
    judge: Annotated[
        str | None, typer.Option(help="URL of an OpenAI-compatible endpoint; its key in $T1_JUDGE_KEY.")
    ] = None,
    judge_model: Annotated[str | None, typer.Option(help="The judge's name at that endpoint.")] = None,
    rubric: Annotated[str, typer.Option(help="A shipped rubric by name, or a path to your own.")] = "t1",
    select: Annotated[int | None, typer.Option(min=1, help="Choose that many, spread over families.")] = None,
    record: Annotated[Path | None, typer.Option(help="The judge's verdicts so far; naming it again goes on.")] = None,
    checked: Annotated[
        Path | None,
        typer.Option(help="Record of `t1 tasks check`: what doing nothing, deleting all and the solution really did."),
    ] = None,
    at_once: Annotated[int, typer.Option(min=1, help="Tasks side by side, and so requests to the judge.")] = 4,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Score tasks on eight dimensions; reject hidden requirements, leaks, shortcuts and weak verifiers. Runs no task.

    Exit 0 when every task is accepted (or --select found that many), 3 when the judge left a task without a verdict.
    """
    import asyncio

    from t1cli.terminal.tasks.audit.rubric import load_rubric
    from t1cli.terminal.tasks.audit.select import select as choose
    from t1cli.terminal.tasks.check_pool import read_record, task_directories
    from t1cli.ui.json_view import print_object

    asked = _judge(judge, judge_model)
    loaded, directories = load_rubric(rubric), task_directories(directory)
    if checked is not None and not checked.is_file():
        raise BadInput(
            f"no record at {checked}", where="--checked", hint=f"t1 tasks check {directory} --record {checked}"
        )
    how = {"record": record, "checks": read_record(checked) if checked else None, "at_once": at_once}
    found = asyncio.run(_run(directories, loaded, asked, how))
    choices = choose(found, select) if select is not None else ()
    name = asked.name if asked is not None else None
    if json:
        print_object(_as_json(found, choices, name, loaded.prompt_version))
    else:
        _print(found, choices, name)
    if found.states().get("unjudged"):
        again = "the same command goes on" if record else "name a --record, so that no verdict is asked for twice"
        typer.echo(f"next: {again}", err=True)
    return _exit_code(found, choices, select)


def _judge(url: str | None, model: str | None) -> Judge | None:
    from t1cli.terminal.tasks.audit.judge import KEY_VARIABLE, Judge

    if url is None and model is None:
        return None
    if url is None or model is None:
        absent = "--judge" if url is None else "--judge-model"
        raise BadInput(f"{absent} is missing", where=absent, hint="a judge is named by both, --judge and --judge-model")
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise BadInput(f"${KEY_VARIABLE} holds what no key holds", where=KEY_VARIABLE, hint="one line of ASCII")
    return Judge(url, model, key=key)


async def _run(directories: tuple[Path, ...], rubric: Rubric, judge: Judge | None, how: dict[str, Any]) -> PoolAudit:
    from t1cli.terminal.tasks.audit.audit_pool import audit_pool

    done = 0

    def seen(_: TaskAudit) -> None:
        nonlocal done
        done += 1
        if done % 50 == 0:
            typer.echo(f"{done} of {len(directories)} audited", err=True)

    if judge is None:
        return await audit_pool(directories, rubric, **how, seen=seen)
    async with judge:
        return await audit_pool(directories, rubric, judge=judge, **how, seen=seen)


def _exit_code(found: PoolAudit, choices: tuple[Choice, ...], wanted: int | None) -> ExitCode:
    if found.states().get("unjudged"):
        return ExitCode.COULD_NOT_ASK
    if wanted is not None:
        return ExitCode.YES if sum(choice.taken for choice in choices) == wanted else ExitCode.NO
    return ExitCode.YES if len(found.accepted) == len(found.tasks) else ExitCode.NO


def _print(found: PoolAudit, choices: tuple[Choice, ...], judge: str | None) -> None:
    typer.echo(f"{len(found.accepted)} of {len(found.tasks)} tasks accepted")
    for name, count in {**found.states(), **found.by_rejection()}.items():
        typer.echo(f"  {name:<22}{count:>6}")
    weights = sorted(task.scored_weight for task in found.accepted)
    if judge is None:
        share = f"; scores rest on {weights[0]:.0%} of the weight at least" if weights else ""
        typer.echo(f"  no judge: only what a machine can see{share}")
    else:
        typer.echo(f"  judge: {judge}; {found.asked} verdicts, {found.resumed} more from the record")
    if found.checked:
        typer.echo(f"  {found.checked} of {len(found.tasks)} tasks were run by a check")
    if choices:
        _print_choices(choices)
        return
    _print_refused(found)


def _print_refused(found: PoolAudit) -> None:
    from t1cli.terminal.tasks.audit.select import why_not

    bad = [task for task in found.tasks if task not in found.accepted]
    for task in bad[:_SHOWN]:
        typer.echo(f"✗ {task.name}: {why_not(task, found.score_min)}")
        for reason in task.reasons:
            typer.echo(f"    {reason}")
    if len(bad) > _SHOWN:
        typer.echo(f"… and {len(bad) - _SHOWN} more; --json has all")


def _print_choices(choices: tuple[Choice, ...]) -> None:
    taken = [choice for choice in choices if choice.taken]
    left = [choice for choice in choices if not choice.taken]
    for choice in (*taken, *left[:_SHOWN]):
        typer.echo(f"{'✓' if choice.taken else '✗'} {choice.task}: {choice.reason}")
    if len(left) > _SHOWN:
        typer.echo(f"… and {len(left) - _SHOWN} more left; --json has all")


def _as_json(found: PoolAudit, choices: tuple[Choice, ...], judge: str | None, prompt: str) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "format_version": 1,
        "tasks": len(found.tasks),
        "accepted": len(found.accepted),
        "states": found.states(),
        "rejections": found.by_rejection(),
        "judge": judge,
        "prompt_version": prompt,
        "asked": found.asked,
        "resumed": found.resumed,
        "checked": found.checked,
        "selected": [choice.task for choice in choices if choice.taken],
        "choices": [asdict(choice) for choice in choices],
        "results": [{**asdict(task), "state": task.state(found.score_min)} for task in found.tasks],
    }
