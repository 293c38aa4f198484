"""tasks: what lies in the pool that should not, and training tasks against evaluation tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from t1cli.errors import BadInput
from t1cli.preflight.check import Check, Context, Saw, failed, passed, skipped, warned
from t1cli.preflight.task_pool import content_of, evaluation_tasks_of, tasks_of

if TYPE_CHECKING:
    from t1cli.terminal.tasks.task import Task

REPORTS = ("ctrf.json", "reward.txt", "reward.json")
_TOLD = 3


def stale_reports(context: Context) -> Saw:
    """Reports of another run that lie in the pool, where a reused trial directory would take them for its reward."""
    tasks = tasks_of(context)
    planted = [str(path) for task in tasks for path in task.path.rglob("*") if path.name in REPORTS]
    wanted = "no report before the run that writes it"
    if not planted:
        return passed(f"none in {len(tasks)} tasks; every session gets fresh trial directories", wanted)
    said = f"{len(planted)} in {len({Path(path).parent for path in planted})} directories, first {planted[0]}"
    return failed(said, wanted, "remove them: a report must be written by the trial that it rewards")


def duplicates(context: Context) -> Saw:
    """Tasks that are one task under several names: they count twice in every epoch and every group."""
    tasks = tasks_of(context)
    by_content: dict[str, list[str]] = {}
    for task in tasks:
        by_content.setdefault(content_of(task), []).append(task.name)
    double = [names for names in by_content.values() if len(names) > 1]
    wanted = "every task once"
    if not double:
        return passed(f"{len(tasks)} different tasks", wanted)
    extra = sum(len(names) - 1 for names in double)
    told = "; ".join(" = ".join(names[:_TOLD]) for names in double[:_TOLD])
    return warned(f"{extra} of {len(tasks)} are copies: {told}", wanted, "remove the copies from the pool")


def overlap(context: Context) -> Saw:
    """Evaluation tasks that are trained on: the score would measure memory."""
    evaluated = _evaluation(context)
    if isinstance(evaluated, Saw):
        return evaluated
    trained = {content_of(task): task.name for task in tasks_of(context)}
    same = [(task.name, trained[digest]) for task in evaluated if (digest := content_of(task)) in trained]
    wanted = "no task in both sets"
    if not same:
        return passed(f"none of {len(evaluated)} evaluation tasks is trained on", wanted)
    told = ", ".join(name if name == other else f"{name} (trained on as {other})" for name, other in same[:_TOLD])
    return failed(f"{len(same)} of {len(evaluated)}: {told}", wanted, "take them out of one of the sets")


def categories(context: Context) -> Saw:
    """Kinds of task that are evaluated and never trained on."""
    evaluated = _evaluation(context)
    if isinstance(evaluated, Saw):
        return evaluated
    trained = Counter(task.family for task in tasks_of(context))
    missing = sorted({task.family for task in evaluated} - set(trained))
    wanted = "training tasks of every family that is evaluated"
    if not missing:
        return passed(f"{len({task.family for task in evaluated})} families, all trained on", wanted)
    count = sum(task.family in missing for task in evaluated)
    said = f"{', '.join(missing)}: {count} of {len(evaluated)} evaluation tasks"
    return warned(said, wanted, "train on such tasks, or read their scores as transfer")


def evaluation_set(context: Context) -> Saw:
    """The evaluation's tasks can be read, and are as many as the block schedules."""
    evaluation = context.spec.evaluation
    evaluated = _evaluation(context)
    if isinstance(evaluated, Saw):
        return evaluated
    assert evaluation is not None
    found, wanted = f"{len(evaluated)} tasks", f"{evaluation.num_tasks} by evaluation.num_tasks"
    if len(evaluated) >= evaluation.num_tasks:
        return passed(found, wanted)
    return failed(found, wanted, f"--set evaluation.num_tasks={len(evaluated)}, or complete the set")


def _evaluation(context: Context) -> Sequence[Task] | Saw:
    evaluation = context.spec.evaluation
    if evaluation is None:
        return skipped("no evaluation block")
    if not context.loaded.resolve_path(evaluation.path).is_dir() and not context.runs_here:
        return skipped("the evaluation's tasks are on the cluster's nodes, not here")
    try:
        return evaluation_tasks_of(context)
    except BadInput as error:
        first = error.diagnostics[0]
        return failed(
            f"{first.where}: {first.message}", "a readable evaluation set", first.hint or "correct evaluation.path"
        )


_POOL = ("tasks.pool",)

CHECKS = (
    Check("tasks.stale_reports", ("R4",), stale_reports, limit_seconds=60.0, needs=_POOL),
    Check("tasks.duplicates", ("C10",), duplicates, limit_seconds=60.0, needs=_POOL),
    Check("tasks.evaluation_set", ("C10",), evaluation_set, limit_seconds=60.0),
    Check("tasks.overlap", ("C10",), overlap, limit_seconds=60.0, needs=("tasks.pool", "tasks.evaluation_set")),
    Check("tasks.categories", ("C10",), categories, limit_seconds=60.0, needs=("tasks.pool", "tasks.evaluation_set")),
)
