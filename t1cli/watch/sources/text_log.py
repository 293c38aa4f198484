"""Metrics from a trainer's stdout: slime, verl, OpenRLHF, TRL and prime-rl lines, under Ray's prefixes.

Beside the metrics a log says how often its signatures were seen: `log/<signature>`, per step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from t1cli.launch.slime.log import LineJoiner, LoggedMetrics, read_line
from t1cli.run.metric_names import TRAIN_STEP
from t1cli.watch.logs.classifier import LogClassifier
from t1cli.watch.logs.scanner import scan
from t1cli.watch.logs.signatures import minute_of, signatures, stripped
from t1cli.watch.sources.flat_row import as_number
from t1cli.watch.sources.source import Row

_VALUE = r"(?:np\.\w+\([^)]*\)|tensor\([^)]*\)|[-+]?(?:nan|inf|\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+))"
_PAIR = re.compile(rf"'([^']+)': ({_VALUE})", re.IGNORECASE)
_VERL = re.compile(r"step:(\d+) - (.*)")
_VERL_PAIR = re.compile(rf"([\w/@.+-]+):({_VALUE})(?= - |\s*$|\s+\[)", re.IGNORECASE)
_TRL = re.compile(r"\{'[^']+': .*\}$")
_OPENRLHF = re.compile(r"(\d+)/(\d+) \[[^\]]*?, ((?:[\w/]+=[^,\]]+(?:, )?)+)\]")
_OPENRLHF_PAIR = re.compile(rf"([\w/]+)=({_VALUE})", re.IGNORECASE)
_PRIME = re.compile(r"Step (\d+) \|(.*)")
_PRIME_NAMES = {
    "loss": "loss/mean",
    "entropy": "entropy/mean",
    "mismatch kl": "mismatch_kl/mean",
    "grad. norm": "optim/grad_norm",
    "reward": "reward/mean",
}
_PRIME_PAIR = re.compile(rf"([A-Z][A-Za-z. ]*?):? +({_VALUE})\b", re.IGNORECASE)


class TextLog:
    """A log that may still grow; `is_finished` says when nothing more will come."""

    def __init__(
        self, path: Path, *, steps_per_rollout: int = 1, is_finished: Callable[[], bool] = lambda: True
    ) -> None:
        self.log = LogClassifier(path)
        self._steps_per_rollout = steps_per_rollout
        self._is_finished = is_finished
        self._counts: Counter[str] = Counter()
        self._names: set[str] = set()
        self._counter = -1
        self._bar: tuple[str, str] | None = None
        self._step = -1
        self._joiner = LineJoiner()
        self.finished = False

    def poll(self) -> tuple[Row, ...]:
        """Rows of the lines that were completed since the last call."""
        finished = self._is_finished()
        rows = list(self._rows(finished))
        self.finished = finished
        return tuple(rows)

    def _rows(self, last: bool) -> Iterator[Row]:
        table = signatures()
        for chunk, offset in self.log.chunks(last=last):
            hits: dict[int, list[tuple[str, int]]] = {}
            for hit in scan(chunk, offset):
                self.log.state.take(hit)
                hits.setdefault(hit.offset - offset, []).append((table[hit.signature].name, hit.count))
            at = 0
            for line in chunk.split(b"\n"):
                for name, count in hits.get(at, ()):
                    self._counts[f"log/{name}"] += count
                    self._names.add(f"log/{name}")
                at += len(line) + 1
                for piece in line.split(b"\r"):
                    yield from self._line(piece)
            self.log.state.offset = offset + len(chunk)

    def _line(self, raw: bytes) -> Iterator[Row]:
        if not (self._joiner.waits or b"'" in raw or b":" in raw or b"=" in raw or b"|" in raw):
            return
        if self._joiner.waits or b": {" in raw:
            whole = self._joiner.whole(raw.decode("utf-8", "replace"))
            if whole is None:
                return
            raw = whole.encode("utf-8", "replace")
        text = stripped(raw).decode("utf-8", "replace").strip()
        found = self._slime(text) or self._verl(text) or self._prime(text) or self._trl(text) or self._openrlhf(text)
        if found is None:
            return
        step, values = found
        if not values:
            return
        minute = minute_of(raw)
        if step != self._step:
            values |= {name: float(self._counts[name]) for name in self._names}
            self._counts.clear()
            self._step = step
        yield Row(step, values, None if minute is None else minute * 60.0)

    def _slime(self, text: str) -> tuple[int, dict[str, float]] | None:
        found = read_line(text) if ": {" in text else None
        if not isinstance(found, LoggedMetrics):
            return None
        return found.step // (self._steps_per_rollout if found.axis == TRAIN_STEP else 1), dict(found.values)

    def _verl(self, text: str) -> tuple[int, dict[str, float]] | None:
        found = _VERL.match(text) if text.startswith("step:") else None
        return None if found is None else (int(found[1]), _numbers(_VERL_PAIR.findall(found[2])))

    def _prime(self, text: str) -> tuple[int, dict[str, float]] | None:
        found = _PRIME.search(text) if "Step " in text and "|" in text else None
        if found is None:
            return None
        pairs = [pair for part in found[2].split("|") for pair in _PRIME_PAIR.findall(part.strip())]
        named = [(_PRIME_NAMES[name.strip().lower()], v) for name, v in pairs if name.strip().lower() in _PRIME_NAMES]
        return int(found[1]), _numbers(named)

    def _trl(self, text: str) -> tuple[int, dict[str, float]] | None:
        """TRL prints no step: its lines are counted."""
        if _TRL.match(text) is None or not ("'loss'" in text or "'reward'" in text):
            return None
        self._counter += 1
        return self._counter, _numbers(_PAIR.findall(text))

    def _openrlhf(self, text: str) -> tuple[int, dict[str, float]] | None:
        """A progress bar that is redrawn: a step begins when its count moves."""
        found = _OPENRLHF.search(text) if "=" in text and "[" in text else None
        if found is None:
            return None
        if (found[1], found[2]) != self._bar:
            self._bar, self._counter = (found[1], found[2]), self._counter + 1
        return self._counter, _numbers(_OPENRLHF_PAIR.findall(found[3]))


def _numbers(pairs: list[tuple[str, str]]) -> dict[str, float]:
    found = {}
    for name, text in pairs:
        number = as_number(text)
        if number is None:
            number = float(text)
        found[name] = number
    return found
