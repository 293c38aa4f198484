"""Auditing a pool: the machine's part of every task, then the judge's of those that it has not rejected."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from t1cli.errors import BadInput
from t1cli.terminal.side_by_side import side_by_side
from t1cli.terminal.tasks.audit.checked import broken_by, with_check
from t1cli.terminal.tasks.audit.files import TaskFiles, read_files, squeezed
from t1cli.terminal.tasks.audit.finding import Finding
from t1cli.terminal.tasks.audit.judge import Judge, JudgeAway
from t1cli.terminal.tasks.audit.machine import MachinePart, examine
from t1cli.terminal.tasks.audit.prompt import messages_for
from t1cli.terminal.tasks.audit.record import Key, VerdictRecord
from t1cli.terminal.tasks.audit.rubric import DimensionName, Rubric
from t1cli.terminal.tasks.audit.verdict import Malformed, Verdict
from t1cli.terminal.tasks.check_pool import TaskCheck
from t1cli.terminal.tasks.digest import digest_of
from t1cli.terminal.tasks.load import load_task
from t1cli.terminal.tasks.static_check import static_problems

_AWAY_MAX = 3
"""Tasks in a row without an answer after which the judge is left alone; a next call goes on."""


@dataclass(frozen=True)
class TaskAudit:
    """What is known of one task afterwards."""

    name: str
    family: str = "none"
    instruction: str = ""
    """Without white space that says nothing."""
    broken: tuple[str, ...] = ()
    """Why it cannot be trained on at all: layout, or a verifier that cannot work."""
    findings: tuple[Finding, ...] = ()
    rejections: tuple[str, ...] = ()
    """Of the four, those that hold, by the machine or the judge."""
    dimensions: dict[DimensionName, float] = field(default_factory=dict)
    """0 to 1, the lower of measure and judge; absent when neither has one."""
    score: float = 0.0
    """Weighted mean of the dimensions that are there."""
    scored_weight: float = 0.0
    """Share of the rubric's weight that they have."""
    reasons: tuple[str, ...] = ()
    unjudged: str = ""
    """Why the judge gave no verdict; empty when it did, or was not asked."""

    def state(self, score_min: float) -> str:
        """`broken`, `rejected`, `unjudged`, `below` (the least score) or `accepted`."""
        if self.broken or self.rejections:
            return "broken" if self.broken else "rejected"
        return "unjudged" if self.unjudged else "below" if self.score < score_min else "accepted"


@dataclass(frozen=True)
class PoolAudit:
    """What is known of a pool."""

    tasks: tuple[TaskAudit, ...]
    score_min: float
    asked: int = 0
    """Verdicts that the judge gave now."""
    resumed: int = 0
    """Verdicts from the record."""
    checked: int = 0
    """Tasks that a check had run as they are now."""

    def states(self) -> dict[str, int]:
        """Tasks by state."""
        return dict(sorted(Counter(task.state(self.score_min) for task in self.tasks).items()))

    def by_rejection(self) -> dict[str, int]:
        """Tasks by rejection; a task may have several."""
        return dict(sorted(Counter(name for task in self.tasks for name in task.rejections).items()))

    @property
    def accepted(self) -> tuple[TaskAudit, ...]:
        return tuple(task for task in self.tasks if task.state(self.score_min) == "accepted")


async def audit_pool(
    directories: Sequence[Path],
    rubric: Rubric,
    *,
    judge: Judge | None = None,
    record: Path | None = None,
    checks: Mapping[str, TaskCheck] | None = None,
    at_once: int = 4,
    seen: Callable[[TaskAudit], None] | None = None,
) -> PoolAudit:
    """Audit every task; a task that the machine rejects is not put to the judge. Never raises for a bad task.

    `checks` are results of `t1 tasks check` by task name; those of another digest than the task's count for nothing.
    """
    auditor = _Auditor(rubric, judge, VerdictRecord(record), checks or {}, asyncio.Semaphore(at_once))

    async def one(directory: Path) -> TaskAudit:
        found = await auditor.audit(directory)
        if seen is not None:
            seen(found)
        return found

    tasks = await side_by_side(one(directory) for directory in directories)
    return PoolAudit(tasks, rubric.limits.score_min, auditor.asked, auditor.resumed, auditor.checked)


class _Auditor:
    def __init__(
        self,
        rubric: Rubric,
        judge: Judge | None,
        verdicts: VerdictRecord,
        checks: Mapping[str, TaskCheck],
        places: asyncio.Semaphore,
    ) -> None:
        self.asked = self.resumed = self.checked = self._away = 0
        self._rubric, self._judge, self._verdicts = rubric, judge, verdicts
        self._checks, self._places = checks, places

    async def audit(self, directory: Path) -> TaskAudit:
        async with self._places:
            try:
                digest = digest_of(directory) if self._judge or self._checks else ""
            except BadInput:
                digest = ""  # too much of it: `examined` says so
            except OSError as error:
                return TaskAudit(directory.name, broken=(f"cannot be read: {error}",))
            check = self._checks.get(directory.name)
            check = check if check is not None and check.digest == digest else None
            self.checked += check is not None
            audit, files = examined(directory, self._rubric, check)
            if files is None or self._judge is None or audit.broken or audit.rejections:
                return audit
            key = Key(digest, self._judge.name, self._rubric.prompt_version)
            try:
                verdict = self._recorded(key) or await self._ask(self._judge, audit, files, key)
            except JudgeAway as error:
                return replace(audit, unjudged=f"judge away: {error}")
            except Malformed as error:
                return replace(audit, unjudged=f"malformed answer refused: {error}")
        return judged(audit, verdict, self._rubric)

    def _recorded(self, key: Key) -> Verdict | None:
        verdict = self._verdicts.get(key)
        self.resumed += verdict is not None
        return verdict

    async def _ask(self, judge: Judge, audit: TaskAudit, files: TaskFiles, key: Key) -> Verdict:
        if self._away >= _AWAY_MAX:
            raise JudgeAway(f"not asked after {_AWAY_MAX} tasks in a row without an answer")
        doubts = [finding for finding in audit.findings if not finding.hard]
        try:
            verdict = await judge.verdict(messages_for(files, doubts, self._rubric), files)
        except JudgeAway:
            self._away += 1
            raise
        self._away = 0
        self.asked += 1
        self._verdicts.add(key, audit.name, verdict)
        return verdict


def examined(directory: Path, rubric: Rubric, check: TaskCheck | None = None) -> tuple[TaskAudit, TaskFiles | None]:
    """The machine's part of one task, and its files unless they cannot be read as a task."""
    try:
        task = load_task(directory)
        files = read_files(task.path, task.instruction)
    except BadInput as error:
        return TaskAudit(directory.name, broken=tuple(f"{d.where}: {d.message}" for d in error.diagnostics)), None
    except OSError as error:
        return TaskAudit(directory.name, broken=(f"cannot be read: {error}",)), None
    problems = static_problems(task.tests / "test.sh", network=False)
    broken = broken_by(check) if check else tuple(problem.message for problem in problems if problem.fatal)
    part = examine(files, rubric.limits)
    part = with_check(part, check) if check else part
    audit = TaskAudit(
        task.name,
        task.family,
        squeezed(task.instruction),
        broken=broken,
        findings=part.findings,
        rejections=_rejections(part),
        reasons=tuple(f"{f.kind}: {f.message}" for f in part.findings),
    )
    return _scored(audit, dict(part.measures), rubric), files


def judged(audit: TaskAudit, verdict: Verdict, rubric: Rubric) -> TaskAudit:
    """A task with the judge's part: the lower of both for every dimension, and the rejections of either."""
    both = {name: min(verdict.part(name), audit.dimensions.get(name, 1.0)) for name in rubric.dimensions}
    said = tuple(f"judge: {name}: {reason}" for name, reason in verdict.rejections.items())
    held = tuple(dict.fromkeys((*audit.rejections, *verdict.rejections)))
    return _scored(replace(audit, rejections=held, reasons=(*audit.reasons, *said)), both, rubric)


def _rejections(part: MachinePart) -> tuple[str, ...]:
    return tuple(dict.fromkeys(finding.rejection for finding in part.findings if finding.hard))


def _scored(audit: TaskAudit, dimensions: dict[DimensionName, float], rubric: Rubric) -> TaskAudit:
    weights = {name: rubric.dimensions[name].weight for name in rubric.dimensions if name in dimensions}
    known, whole = sum(weights.values()), sum(d.weight for d in rubric.dimensions.values())
    score = sum(weight * dimensions[name] for name, weight in weights.items()) / known if known else 0.0
    return replace(audit, dimensions=dimensions, score=round(score, 4), scored_weight=round(known / whole, 4))
