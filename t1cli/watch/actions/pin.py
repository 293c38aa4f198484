"""Pinning the best checkpoint: a pin beside the save before which a metric was best, which retention honours (C3)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

from t1cli.records import number_in, read_json, write_json
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventKind, EventTail
from t1cli.run.pins import pin, unpin
from t1cli.watch.actions.journal import watch_dir
from t1cli.watch.history import History

WINDOW = 10
BY: Final = "t1 watch"
"""Who pinned: what a person pinned is never given back."""


class PinAction:
    """Keeps, of all saves so far, the one before which a metric's mean was best (catalogue C3).

    What is held is on record in `watch/pinned.json`: a watcher that is started anew goes on from there.
    """

    def __init__(self, run: RunDirectory, metric: str) -> None:
        self._metric = metric
        self._file = watch_dir(run) / "pinned.json"
        self._events = EventTail(run.events_jsonl)
        self._saves: dict[int, dict[str, Path]] = {}
        self._trouble = ""

    def tick(self, history: History) -> str:
        """Look at new saves; returns what was pinned, or once why nothing could be, for the terminal."""
        try:
            said, self._trouble = self._pin_best(history), ""
        except OSError as problem:
            told, self._trouble = self._trouble, f"no save could be pinned: {problem.strerror or problem}"
            said = self._trouble if self._trouble != told else ""
        return said

    def _pin_best(self, history: History) -> str:
        self._note_saves()
        there = (rollout for rollout, roles in self._saves.items() if all(place.is_dir() for place in roles.values()))
        scores = {rollout: score for rollout in there if (score := self._score(history, rollout)) is not None}
        if not scores:
            return ""
        best = max(scores, key=lambda rollout: (scores[rollout], rollout))
        held = self._held()
        if held and number_in(held.get("score"), -math.inf) >= scores[best]:
            return ""
        self._hold(best, scores[best], former=_checkpoints(held))
        return f"pinned the save after rollout {best}: {self._metric} {scores[best]:.3f}"

    def _hold(self, rollout: int, score: float, *, former: list[Path]) -> None:
        """The new pins first, the record next, the old ones last: killed anywhere, no best save is unpinned."""
        places = list(self._saves[rollout].values())
        for place in places:
            pin(place, by=BY, reason=f"{self._metric} {score!r}")
        told = {"rollout": rollout, "metric": self._metric, "score": score, "checkpoints": [str(one) for one in places]}
        write_json(self._file, {"format_version": 1, **told})
        for place in former:
            if place not in places:
                unpin(place, by=BY)

    def _held(self) -> dict[str, Any]:
        """What is pinned; a score of another metric says nothing about this one's."""
        held = read_json(self._file) or {}
        lost = not all(place.is_dir() for place in _checkpoints(held))
        return {"checkpoints": held.get("checkpoints")} if lost or held.get("metric") != self._metric else held

    def _note_saves(self) -> None:
        for event in self._events.poll():
            if event.kind is EventKind.CHECKPOINT:
                roles = self._saves.setdefault(int(event.number("rollout")), {})
                roles[event.text("role")] = Path(event.text("path"))

    def _score(self, history: History, rollout: int) -> float | None:
        """Mean over the rollouts that the save had been trained on last; None without a finite one."""
        series = history.get(self._metric)
        values = series.up_to(rollout - 1, WINDOW) if series is not None else []
        mean = sum(values) / len(values) if values else math.nan
        return mean if math.isfinite(mean) else None


def _checkpoints(held: dict[str, Any]) -> list[Path]:
    return [Path(str(one)) for one in held.get("checkpoints") or ()]
