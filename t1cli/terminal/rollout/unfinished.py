"""Prompts whose groups a rollout did not finish: they come first in the next one's draw, also after a resume.

(catalogue S9)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from t1cli.records import write_json

MOST_REPEATS: Final = 3
"""A prompt that was left unfinished this often waits for its next epoch: what is always too slow would otherwise take
the whole surplus of every rollout."""
FORMAT_VERSION: Final = 1
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Again:
    """A prompt that is drawn once more."""

    position: int
    repeats: int
    """How often it was left unfinished in a row."""


@dataclass(frozen=True)
class DrawState:
    """Where the draw stands before a rollout."""

    next_position: int
    """First position of the stream that was not drawn yet."""
    again: tuple[Again, ...] = ()

    def positions(self, count: int) -> tuple[int, ...]:
        """What a rollout of `count` groups draws: unfinished prompts in the order they were drawn in, then new ones."""
        first = [one.position for one in self.again[:count]]
        return (*first, *range(self.next_position, self.next_position + count - len(first)))

    def after(self, count: int, unfinished: Collection[int], *, going_on: Collection[int] = ()) -> DrawState:
        """Where it stands when that rollout has left these positions unfinished; trials of some of them still go on."""
        drawn, before = self.positions(count), {one.position: one.repeats for one in self.again}
        left = [Again(position, before.get(position, 0) + 1) for position in drawn if position in unfinished]
        again = [one for one in left if one.repeats <= MOST_REPEATS or one.position in going_on]
        new = sum(position >= self.next_position for position in drawn)
        return DrawState(self.next_position + new, (*self.again[count:], *again))


class DrawRecord:
    """Where the draw stood before each rollout, one small file each, written aside and renamed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def before(self, rollout_id: int, count: int) -> DrawState:
        """The state before a rollout; without a record, as if every earlier rollout had finished all it drew."""
        if rollout_id == 0:
            return DrawState(0)
        path = self._file(rollout_id)
        try:
            return _state(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            _LOG.warning("%s: no record of what was left unfinished: %s", path, error)
        return DrawState(rollout_id * count)

    def write(self, rollout_id: int, state: DrawState) -> None:
        """Record the state before a rollout, in place of an earlier record of it."""
        path = self._file(rollout_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        again = [{"position": one.position, "repeats": one.repeats} for one in state.again]
        record = {"format_version": FORMAT_VERSION, "next_position": state.next_position, "again": again}
        write_json(path, record)

    def _file(self, rollout_id: int) -> Path:
        return self._directory / f"before_rollout_{rollout_id:06d}.json"


def _state(record: dict[str, Any]) -> DrawState:
    if record["format_version"] != FORMAT_VERSION:
        raise ValueError(f"format {record['format_version']}, expected {FORMAT_VERSION}")
    again = tuple(Again(int(one["position"]), int(one["repeats"])) for one in record["again"])
    return DrawState(int(record["next_position"]), again)
