"""How people count: the rollouts of a run from 1, the steps of a mere file as the file has them.

Stored data and JSON keep `step`, which is the rollout's id and begins at 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Counting:
    """The word for one step of a source, and what is added to its number."""

    word: str
    added: int

    def number(self, step: int) -> int:
        """What a person calls it."""
        return step + self.added

    def one(self, step: int) -> str:
        """`rollout 20`."""
        return f"{self.word} {self.number(step)}"

    def span(self, first: int, last: int) -> str:
        """`rollouts 3 to 5`, or one of them."""
        return self.one(first) if first == last else f"{self.word}s {self.number(first)} to {self.number(last)}"

    def several(self, steps: Iterable[int]) -> str:
        """`rollouts 5, 20, 31`, or one of them."""
        numbers = [str(self.number(step)) for step in steps]
        return f"{self.word}{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


OF_RUN: Final = Counting("rollout", 1)
OF_FILE: Final = Counting("step", 0)
