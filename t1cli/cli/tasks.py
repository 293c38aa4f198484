"""`t1 tasks`: check pools of tasks by running them, audit their quality, and convert older layouts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from t1cli.cli.boundary import guarded
from t1cli.cli.tasks_audit import audit
from t1cli.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from t1cli.terminal.tasks.check_pool import PoolCheck, TaskCheck

group = typer.Typer(help="Check and audit pools of tasks, and convert older layouts.", no_args_is_help=True)

_SHOWN = 20


def check(
    directory: Annotated[Path, typer.Argument(help="A pool: one directory per task, in Harbor's layout.")],
    at_once: Annotated[int | None, typer.Option(min=1, help="Tasks side by side; the core count by default.")] = None,
    record: Annotated[Path | None, typer.Option(help="Results so far; naming it again goes on.")] = None,
    backend: Annotated[str, typer.Option(help="auto, bubblewrap or process.")] = "auto",
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Run every task solved, untouched and emptied; exit 1 when one must not be trained on, 3 when sandboxes failed."""
    import asyncio
    import tempfile

    from t1cli.spec.sandbox import LocalSandbox
    from t1cli.terminal.sandbox.local import local_provider
    from t1cli.terminal.tasks.check_pool import check_pool, task_directories
    from t1cli.ui.json_view import print_object

    if backend not in ("auto", "bubblewrap", "process"):
        raise BadInput(f"backend {backend!r}", where="--backend", hint="auto, bubblewrap or process")
    directories = task_directories(directory)
    done = 0

    def seen(task: TaskCheck) -> None:
        nonlocal done
        done += 1
        if done % 50 == 0:
            typer.echo(f"{done} of {len(directories)} checked", err=True)

    async def run() -> PoolCheck:
        with tempfile.TemporaryDirectory(prefix="t1-tasks-") as scratch:
            provider = local_provider(LocalSandbox.model_validate({"backend": backend}), Path(scratch))
            try:
                return await check_pool(directories, provider, record=record, at_once=at_once, seen=seen)
            finally:
                await provider.close()

    found = asyncio.run(run())
    if json:
        print_object(_as_json(found))
    else:
        _print(found)
    if found.unknown:
        again = "the same command goes on" if record is not None else "--record FILE would spare what was found"
        typer.echo(f"not known of {found.unknown} tasks, whose sandboxes failed: {again}", err=True)
        return ExitCode.COULD_NOT_ASK
    return ExitCode.YES if found.good == len(found.tasks) else ExitCode.NO


def convert(
    source: Annotated[Path, typer.Argument(help="A pool in terminal-bench's layout (task.yaml).")],
    target: Annotated[Path, typer.Argument(help="Where the pool in Harbor's layout goes; must not exist.")],
) -> int:
    """Write a terminal-bench pool in Harbor's layout."""
    from t1cli.terminal.tasks.convert import convert_pool

    converted = convert_pool(source, target)
    typer.echo(f"{len(converted)} tasks in {target}")
    for task in converted:
        for note in task.notes:
            typer.echo(f"note: {task.name}: {note}", err=True)
    typer.echo(f"next: t1 tasks check {target}", err=True)
    return ExitCode.YES


def new(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Directories to write, such as tasks/my-task.")
    ],
) -> int:
    """Write tasks to begin with: solvable, counted test by test, meant to be rewritten."""
    from t1cli.terminal.tasks.new_task import new_task

    for path in paths:
        new_task(path)
        typer.echo(f"wrote {path}: edit instruction.md, solution/solve.sh and tests/test_outputs.py")
    typer.echo("what an agent is to find goes into a new folder environment/files of its task", err=True)
    typer.echo(f"next: t1 tasks check {paths[0].parent}", err=True)
    return ExitCode.YES


def _print(found: PoolCheck) -> None:
    resumed = f" ({found.resumed} from the record)" if found.resumed else ""
    typer.echo(f"{found.good} of {len(found.tasks)} tasks can be trained on{resumed}")
    for kind, count in found.by_kind().items():
        typer.echo(f"  {kind:<20}{count:>6}")
    for name, spread in _spreads(found).items():
        if spread:
            typer.echo(f"  {name:<22}" + "  ".join(f"{part} {value:g}" for part, value in spread.items()))
    if found.suggested_scale:
        typer.echo(f"  reward.scale of {found.suggested_scale:g} fits (90th percentile of tests per task)")
    bad = [task for task in found.tasks if task.problems]
    for task in bad[:_SHOWN]:
        for message in _joined([problem.message for problem in task.problems]):
            first, *more = message.splitlines()
            typer.echo("\n".join([f"{_mark(task)} {task.name}: {first}", *(f"    {m}" for m in more)]))
    if len(bad) > _SHOWN:
        typer.echo(f"… and {len(bad) - _SHOWN} more; --json has all")


def _mark(task: TaskCheck) -> str:
    return "?" if not task.known else "!" if task.ok else "✗"


def _joined(messages: list[str]) -> list[str]:
    """What several runs of a task say alike is said once: `oracle, no-op: …`."""
    runs: dict[str, tuple[list[str], str]] = {}
    for message in messages:
        run, _, said = message.partition(": ") if ": " in message else ("", "", message)
        alike = re.sub(r"\d+\.\d+ ?s\b", "", said)  # how long it took differs from run to run
        runs.setdefault(alike, ([], said))[0].append(run)
    return [f"{', '.join(run)}: {said}" if all(run) else said for run, said in runs.values()]


def _spreads(found: PoolCheck) -> dict[str, dict[str, float]]:
    return {
        "tests per task": found.spread(lambda task: task.tests),
        "verifier seconds": found.spread(lambda task: round(task.verify_seconds, 3)),
        "agent budget seconds": found.spread(lambda task: task.agent_seconds),
    }


def _as_json(found: PoolCheck) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "format_version": 1,
        "tasks": len(found.tasks),
        "good": found.good,
        "unknown": found.unknown,
        "resumed": found.resumed,
        "problems": found.by_kind(),
        "spreads": _spreads(found),
        "suggested_scale": found.suggested_scale,
        "results": [{**asdict(task), "ok": task.ok if task.known else None} for task in found.tasks],
    }


group.command("new")(guarded(new))
group.command("check")(guarded(check))
group.command("audit")(guarded(audit))
group.command("convert")(guarded(convert))
