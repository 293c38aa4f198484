"""Pinning the best checkpoint: hard links beside the originals, which no retention knows and so none deletes (C3)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from t1cli.launch.events import Event, EventKind, read_events
from t1cli.launch.run_directory import RunDirectory
from t1cli.watch.actions.journal import watch_dir
from t1cli.watch.history import History

WINDOW = 10


class PinAction:
    """Keeps, of all saves so far, the one before which a metric's mean was best (catalogue C3)."""

    def __init__(self, run: RunDirectory, metric: str) -> None:
        self._run = run
        self._metric = metric
        self._folder = watch_dir(run) / "pinned"
        self._seen: set[str] = set()

    def tick(self, history: History) -> str:
        """Look at new saves; returns what was pinned, for the terminal."""
        saves: dict[int, list[Event]] = {}
        for event in read_events(self._run.events_jsonl):
            if event.kind is EventKind.CHECKPOINT and Path(event.text("path")).is_dir():
                saves.setdefault(int(event.number("rollout")), []).append(event)
        scores = {rollout: score for rollout in saves if (score := self._score(history, rollout)) is not None}
        if not scores:
            return ""
        best = max(scores, key=lambda rollout: (scores[rollout], rollout))
        target = self._folder / f"rollout_{best:06d}"
        if target.exists() or (self._best_pinned() or -1e300) >= scores[best]:
            return ""
        for event in saves[best]:
            link_tree(Path(event.text("path")), target / event.text("role"))
        (target / "score").write_text(f"{scores[best]!r}\n", encoding="utf-8")
        for other in self._folder.iterdir():
            if other != target:
                shutil.rmtree(other)
        return f"pinned the save after rollout {best}: {self._metric} {scores[best]:.3f}"

    def _score(self, history: History, rollout: int) -> float | None:
        """Mean over the rollouts that the save had been trained on last."""
        series = history.get(self._metric)
        values = series.up_to(rollout - 1, WINDOW) if series is not None else []
        return sum(values) / len(values) if values else None

    def _best_pinned(self) -> float | None:
        found = [float(path.read_text(encoding="utf-8")) for path in self._folder.glob("*/score")]
        return max(found, default=None)


def link_tree(source: Path, target: Path) -> None:
    """A directory as hard links: no copy, and the files live on when the original is deleted."""
    for folder, _, files in os.walk(source):
        there = target / Path(folder).relative_to(source)
        there.mkdir(parents=True, exist_ok=True)
        for name in files:
            path = Path(folder) / name
            if path.is_symlink():
                continue
            try:
                os.link(path, there / name)
            except OSError:
                shutil.copy2(path, there / name)
