"""Reads a slime job's log as it comes: metrics, saves, and which rollout is under way.

slime writes no metrics file. What it logs to its trackers it also prints, one dictionary a line (v0.3.0:
`ray/rollout.py`, `megatron_utils/data.py`, `megatron_utils/model.py`, `train_metric_utils.py`):
`perf N: {…}`, `rollout N: {…}`, `eval N: {…}` by rollout id, `step N: {…}` by training step.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from t1cli.run.measured import TrialSeen, trial_in
from t1cli.run.metric_names import EVAL_STEP, ROLLOUT_STEP, TRAIN_STEP

_LINE: Final = re.compile(
    r"(?:^|[\s\]-])(?:critic-|actor-)?(step|rollout|perf|eval|multi_turn|passrate) (\d+): (\{.*\})\s*$"
)
_PAIR: Final = re.compile(
    r"'([^']+)': (?:np\.\w+\(|tensor\()?(-?(?:\d[\d_]*\.?\d*(?:[eE][+-]?\d+)?|inf|nan)|True|False)\b"
)
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_PREFIX: Final = re.compile(r"\([\w:.\[\]-]+ pid=\d+(?:, ip=[^)]*)?\) ")
_BEGUN: Final = re.compile(r"(?:^|[\s\]-])(?:critic-|actor-)?(?:step|rollout|perf|eval|multi_turn|passrate) \d+: \{")
_MOST_PIECES: Final = 64
_SAVED: Final = re.compile(r"successfully saved checkpoint from iteration\s+(\d+)\s+to\s+(\S+)")
_AXES: Final[Mapping[str, str]] = {"step": TRAIN_STEP, "eval": EVAL_STEP}


@dataclass(frozen=True)
class LoggedMetrics:
    """One line of metrics."""

    axis: str
    step: int
    values: Mapping[str, float]


@dataclass(frozen=True)
class LoggedSave:
    """Megatron says that a checkpoint is complete."""

    rollout: int
    directory: str


class LineJoiner:
    """Puts metric lines together again: Ray passes a long line on in pieces, each behind its process's prefix."""

    def __init__(self) -> None:
        self._begun: dict[str, list[str]] = {}

    @property
    def waits(self) -> bool:
        """Whether pieces of a line are missing."""
        return bool(self._begun)

    def whole(self, line: str) -> str | None:
        """The line without colours and prefix once it is complete; None while pieces of it are missing."""
        text = _COLOUR.sub("", line)
        found = _PREFIX.match(text)
        prefix, rest = (found[0], text[found.end() :]) if found else ("", text)
        pieces = [*self._begun.pop(prefix, ()), rest]
        joined = "".join(pieces)
        if _BEGUN.search(joined) and not joined.rstrip().endswith("}") and len(pieces) < _MOST_PIECES:
            self._begun[prefix] = pieces
            return None
        return joined


def read_line(line: str) -> LoggedMetrics | LoggedSave | TrialSeen | None:
    """What one line of the log says; None for all that is none of it."""
    trial = trial_in(line)
    if trial is not None:
        return trial
    saved = _SAVED.search(line)
    if saved:
        return LoggedSave(int(saved[1]), saved[2])
    found = _LINE.search(line)
    if not found:
        return None
    kind, step, text = found[1], int(found[2]), found[3]
    values = {name: value for name, value in _values(text) if name not in (ROLLOUT_STEP, TRAIN_STEP, EVAL_STEP)}
    return LoggedMetrics(_AXES.get(kind, ROLLOUT_STEP), step, values) if values else None


def _values(text: str) -> Iterator[tuple[str, float]]:
    # A pattern rather than a parser of literals: `nan` and `inf` are no Python literals.
    for name, value in _PAIR.findall(text):
        if value in ("True", "False"):
            yield name, float(value == "True")
        else:
            yield name, math.nan if "nan" in value else float(value)
