"""What a judge says of one task, and the strict reading of its answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from t1cli.terminal.tasks.audit.files import TaskFiles, squeezed
from t1cli.terminal.tasks.audit.finding import REJECTIONS
from t1cli.terminal.tasks.audit.rubric import DIMENSIONS

_LEAST, _MOST = 1, 5


class Malformed(ValueError):
    """An answer that is not what was asked for; it is refused whole, and never becomes a score."""


@dataclass(frozen=True)
class Verdict:
    """A judge's scores, and why it rejects."""

    scores: dict[str, int]
    """Dimension to 1 (worst) … 5."""
    rejections: dict[str, str]
    """Rejection to its reason; only those that hold."""

    def part(self, dimension: str) -> float:
        """A dimension's score from 0 to 1."""
        return (self.scores[dimension] - _LEAST) / (_MOST - _LEAST)


def verdict_of(answer: str, files: TaskFiles) -> Verdict:
    """Read an answer. Raises Malformed unless every key is there, no other, and each rejection quotes the task."""
    try:
        content = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"no JSON: {str(error)[:80]}") from error
    scores, rejections = _tables(content)
    for name, score in scores.items():
        if type(score) is not int or not _LEAST <= score <= _MOST:
            raise Malformed(f"scores.{name} is {str(score)[:40]!r}, expected a whole number from {_LEAST} to {_MOST}")
    whole = squeezed("\n".join(_all_texts(files)))
    held = {name: _reason(name, said, whole) for name, said in rejections.items() if said is not None}
    return Verdict(dict(scores), held)


def stored(verdict: Verdict) -> dict[str, Any]:
    """For a record."""
    return {"scores": verdict.scores, "rejections": verdict.rejections}


def from_store(content: Any) -> Verdict:
    """A verdict from a record. Raises Malformed."""
    scores, rejections = _tables(content, all_rejections=False)
    texts = all(isinstance(reason, str) for reason in rejections.values())
    if not texts or any(type(score) is not int or not _LEAST <= score <= _MOST for score in scores.values()):
        raise Malformed("no verdict")
    return Verdict(dict(scores), dict(rejections))


def _tables(content: Any, *, all_rejections: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    if not isinstance(content, dict) or set(content) != {"scores", "rejections"}:
        raise Malformed("expected one object with the keys scores and rejections")
    scores, rejections = content["scores"], content["rejections"]
    if not isinstance(scores, dict) or set(scores) != set(DIMENSIONS):
        raise Malformed(f"scores: expected exactly the keys {', '.join(DIMENSIONS)}")
    known = isinstance(rejections, dict) and set(rejections) <= set(REJECTIONS)
    if not known or (all_rejections and len(rejections) != len(REJECTIONS)):
        raise Malformed(f"rejections: expected exactly the keys {', '.join(REJECTIONS)}")
    return scores, rejections


def _reason(name: str, said: Any, whole: str) -> str:
    if not isinstance(said, dict) or set(said) != {"reason", "quote"}:
        raise Malformed(f"rejections.{name}: expected null, or an object with reason and quote")
    reason, quote = said["reason"], said["quote"]
    if not isinstance(reason, str) or not isinstance(quote, str) or not reason.strip() or not quote.strip():
        raise Malformed(f"rejections.{name}: reason and quote must be text")
    if squeezed(quote) not in whole:
        raise Malformed(f"rejections.{name}: the quote {quote[:60]!r} is nowhere in the task")
    return f"{squeezed(reason)[:400]} ({squeezed(quote)[:80]!r})"


def _all_texts(files: TaskFiles) -> list[str]:
    return [files.instruction, *files.environment.values(), *files.solution.values(), *files.tests.values()]
