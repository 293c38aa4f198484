"""logs/job.log: what a job has printed, without secrets, and the metrics read from it."""

from __future__ import annotations

from collections.abc import Callable

from t1cli.launch.slime.log import LineJoiner, LoggedMetrics, LoggedSave, read_line
from t1cli.records import read_json, write_json
from t1cli.run.directory import RunDirectory
from t1cli.run.metric_names import EVAL_STEP, TRAIN_STEP
from t1cli.run.metrics_writer import MetricsWriter
from t1cli.run.redaction import LineRedactor, Redactor
from t1cli.run.rollout_number import rollout_number


class JobLog:
    """Takes text as it comes, in whole lines; remembers how far it has read, so that a new follower goes on there."""

    def __init__(
        self, run: RunDirectory, job_id: str, metrics: MetricsWriter, *, on_save: Callable[[LoggedSave], None]
    ) -> None:
        self._metrics, self._on_save = metrics, on_save
        self._job_id, self._place = job_id, run.job_log_position
        self._joiner = LineJoiner()
        run.logs.mkdir(parents=True, exist_ok=True)
        self._stream = run.job_log.open("a", encoding="utf-8", buffering=1)
        self._unfinished = ""
        known = read_json(self._place) or {}
        known = known if known.get("job_id") == job_id else {}
        self._redactor = LineRedactor(Redactor.of_environment(), int(known.get("key_lines_left", 0)))
        self.position = int(known.get("characters", 0))
        """Characters of the job's log that are written down."""

    def write(self, text: str) -> list[str]:
        """Write down what has come; returns short lines for people."""
        *lines, self._unfinished = (self._unfinished + text).split("\n")
        told = [said for line in lines if (said := self._line(line))]
        if lines:
            self.position += sum(len(line) + 1 for line in lines)
            key = self._redactor.key_lines_left
            write_json(self._place, {"job_id": self._job_id, "characters": self.position, "key_lines_left": key})
        return told

    def close(self) -> None:
        """Write what is left of the last line; safe to call twice."""
        if self._unfinished:
            self._line(self._unfinished)
            self._unfinished = ""
        self._stream.close()
        self._metrics.close()

    def _line(self, line: str) -> str:
        if not self._stream.closed:
            self._stream.write(self._redactor.line(line) + "\n")
        whole = self._joiner.whole(line)
        found = None if whole is None else read_line(whole)
        if isinstance(found, LoggedSave):
            self._on_save(found)
        elif isinstance(found, LoggedMetrics):
            return self._row(found)
        elif found is not None:
            return found.told
        return ""

    def _row(self, found: LoggedMetrics) -> str:
        if found.axis == TRAIN_STEP:
            self._metrics.train(found.step, found.values)
        elif found.axis == EVAL_STEP:
            self._metrics.eval(found.step, found.values)
        else:
            self._metrics.rollout(found.step, found.values)
        reward = found.values.get("rollout/raw_reward")
        return "" if reward is None else f"rollout {rollout_number(found.step)}  reward {reward:.3f}"
