"""Promises of a proof: each with the figure that was found, and whether it holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Promises:
    """What held and what did not."""

    broken: int = 0

    def check(self, name: str, found: object, *, holds: bool) -> None:
        """Print one promise with its figure."""
        self.broken += not holds
        print(f"{'holds ' if holds else 'BROKEN'}  {name}: {found}", flush=True)
