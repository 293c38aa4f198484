"""Reading a growing metrics.jsonl: torn lines, truncation, NaN in all spellings, two axes."""

from __future__ import annotations

import math
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.watch.sources.metrics_file import MetricsFile
from t1cli.watch.sources.source import Row

LINES = (
    b'{"rollout/step": 0, "time": 5.0, "terminal/failed_ratio": 0.5}\n'
    b'{"train/step": 1, "train/grad_norm": NaN}\n'
    b"not json\n"
    b'{"rollout/step": 1, "a": "Infinity", "b": null, "nan": ["b"], "name": "text"}\n'
)


def rows_of(path: Path) -> list[Row]:
    return list(MetricsFile(path, steps_per_rollout=1).poll())


def test_axes_nan_and_junk(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(LINES)
    first, second, third = rows_of(path)
    assert (first.step, first.time, dict(first.values)) == (0, 5.0, {"terminal/failed_ratio": 0.5})
    assert second.step == 1
    assert math.isnan(second.values["train/grad_norm"])
    assert third.values["a"] == math.inf
    assert math.isnan(third.values["b"])
    assert "name" not in third.values


def test_train_axis_is_joined_on_the_rollout(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"train/step": 7, "x": 1}\n')
    assert MetricsFile(path, steps_per_rollout=2).poll()[0].step == 3


@settings(max_examples=20, deadline=None)
@given(cuts=st.lists(st.integers(0, len(LINES)), max_size=8))
def test_any_chunking_gives_the_same_rows(tmp_path_factory: object, cuts: list[int]) -> None:
    path = tmp_path_factory.mktemp("chunks") / "metrics.jsonl"  # type: ignore[attr-defined]
    source = MetricsFile(path)
    seen: list[Row] = []
    for end in [*sorted(cuts), len(LINES)]:
        path.write_bytes(LINES[:end]) if not path.exists() else _append(path, LINES[path.stat().st_size : end])
        seen += source.poll()
    assert [(row.step, sorted(row.values)) for row in seen] == [
        (0, ["terminal/failed_ratio"]),
        (1, ["train/grad_norm"]),
        (1, ["a", "b"]),
    ]


def _append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def test_a_truncated_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(LINES)
    source = MetricsFile(path)
    assert len(source.poll()) == 3
    path.write_bytes(b'{"rollout/step": 0, "a": 1}\n')
    assert [row.step for row in source.poll()] == [0]


def test_a_missing_file_has_no_rows_yet(tmp_path: Path) -> None:
    source = MetricsFile(tmp_path / "metrics.jsonl", is_finished=lambda: False)
    assert source.poll() == ()
    assert not source.finished
