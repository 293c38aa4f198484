"""TensorBoard: event files under the run directory's `tensorboard/`, the row's own step as TensorBoard's step."""

from __future__ import annotations

import time
from collections.abc import Mapping

from t1cli.run.directory import RunDirectory
from t1cli.spec.tracking import TensorboardSpec


class TensorboardTracker:
    """Writes scalars with TensorBoard's own writer: no TensorFlow and no torch."""

    name = "tensorboard"

    def __init__(self, spec: TensorboardSpec, run: RunDirectory) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer = EventFileWriter(str(run.tensorboard / (spec.project or run.name)))

    def log(self, axis: str, step: int, values: Mapping[str, float]) -> None:
        """One event with all values of the row."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=scalars)))

    def close(self) -> None:
        """Flush and finish."""
        self._writer.close()
