"""TensorBoard event files without TensorFlow: new events at each poll, torn tails, several files of one run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from t1cli.watch.sources.source import Row

_STAMP = re.compile(r"tfevents\.(\d+)")


class TensorboardFiles:
    """All `*tfevents*` files under a path, oldest first; a later file that repeats steps is a resume."""

    def __init__(
        self, path: Path, *, steps_per_rollout: int = 1, is_finished: Callable[[], bool] = lambda: True
    ) -> None:
        self._path = path
        self._steps_per_rollout = steps_per_rollout
        self._is_finished = is_finished
        self._loaders: dict[Path, Any] = {}
        self.finished = False

    def poll(self) -> tuple[Row, ...]:
        """Rows of the events that are new. Writers flush every two minutes or ten events."""
        finished = self._is_finished()
        rows = [row for path in self._files() for event in self._events(path) for row in self._rows(event)]
        self.finished = finished
        return tuple(rows)

    def _files(self) -> list[Path]:
        found = [self._path] if self._path.is_file() else self._path.rglob("*tfevents*")
        return sorted(filter(Path.is_file, found), key=lambda path: (_stamp(path), str(path)))

    def _events(self, path: Path) -> Iterator[Any]:
        """New events of a file; a record that is whole by its checksum and yet no event is passed over."""
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

        loader = self._loader(path)
        while True:
            try:
                yield from loader.Load()
                return
            except DecodeError:
                continue  # the loader stands behind that record already

    def _loader(self, path: Path) -> Any:
        if path not in self._loaders:
            from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

            self._loaders[path] = EventFileLoader(str(path))
        return self._loaders[path]

    def _rows(self, event: Any) -> Iterator[Row]:
        """slime logs train tags against train/step and the rest against rollout/step, in one file."""
        by_axis: dict[bool, dict[str, float]] = {}
        for value in event.summary.value:
            number = _scalar(value)
            if number is not None:
                by_axis.setdefault(value.tag.startswith("train/"), {})[value.tag] = number
        for train, values in by_axis.items():
            step = int(event.step) // self._steps_per_rollout if train else int(event.step)
            yield Row(step, values, float(event.wall_time))


def _scalar(value: Any) -> float | None:
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return float(value.simple_value)
    if kind == "tensor" and not value.tensor.tensor_shape.dim and value.tensor.float_val:
        return float(value.tensor.float_val[0])
    return None


def _stamp(path: Path) -> int:
    found = _STAMP.search(path.name)
    return int(found[1]) if found else 0
