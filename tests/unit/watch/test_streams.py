"""The same alerts however rows arrive: restarts, chunks, permutations, rewinds, NaN."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.errors import BadInput
from t1cli.watch.engine import Alert
from t1cli.watch.frames import Frames
from t1cli.watch.history import History
from t1cli.watch.session import Session
from t1cli.watch.sources.metrics_file import MetricsFile
from t1cli.watch.sources.open_source import Opened
from t1cli.watch.sources.source import Row

PACK = """
derived: {both: 'm("a") + m("b")'}
rules:
  - {name: high, metric: a, above: 0.6, for: 2, optional: true}
  - {name: mean, metric: a, window: 3, above: 0.5, clear: 0.3, optional: true}
  - {name: sum, metric: both, above: 1.2, severity: stop, confirmed: true, optional: true}
  - {name: bad, metric: b, finite: true, optional: true}
  - {name: gone, metric: b, absent: true}
"""
VALUE = st.one_of(st.floats(0, 1).map(lambda x: round(x, 2)), st.just(math.nan))
STEPS = st.lists(st.tuples(VALUE, st.one_of(st.none(), VALUE)), min_size=1, max_size=40)


class Given:
    """Rows that are there already."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = tuple(rows)
        self.finished = False

    def poll(self) -> tuple[Row, ...]:
        rows, self._rows = self._rows, ()
        self.finished = True
        return rows


def rows_of(values: list[tuple[float, float | None]]) -> list[Row]:
    """Two axes, in separate rows as slime logs them."""
    rows = []
    for step, (a, b) in enumerate(values):
        rows.append(Row(step, {"a": a}))
        if b is not None:
            rows.append(Row(step, {"b": b}))
    return rows


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("pack") / "pack.yaml"
    path.write_text(PACK)
    return str(path)


def told(pack: str, rows: list[Row], *, already: set[str] | None = None, window: int = 1) -> list[Alert]:
    heard: list[Alert] = []
    session = Session(Opened(Given(rows), "test", reorder_steps=window), [pack], already_told=already or set())
    session.listener.alert = heard.append
    session.replay()
    return heard


@settings(max_examples=20, deadline=None)
@given(values=STEPS, data=st.data())
def test_restarting_anywhere_tells_every_alert_once(
    pack: str, values: list[tuple[float, float | None]], data: st.DataObject
) -> None:
    rows = rows_of(values)
    whole = told(pack, rows)
    cuts = data.draw(st.lists(st.integers(1, len(rows)), max_size=4))
    journal: set[str] = set()
    in_pieces: list[Alert] = []
    for end in [*sorted(cuts), len(rows)]:
        # A watcher that is killed here has told what was complete by then; its successor reads from the start.
        session = Session(Opened(Given(rows[:end]), "test"), [pack], already_told=journal)
        session.listener.alert = in_pieces.append
        session._feed(session.opened.source.poll())
        if end == len(rows):
            session._end()
        journal = {alert.key for alert in in_pieces}
    assert [alert.key for alert in in_pieces] == [alert.key for alert in whole]


@settings(max_examples=20, deadline=None)
@given(values=STEPS, seed=st.integers(0, 999), window=st.integers(1, 4))
def test_permuting_rows_inside_the_window_changes_nothing(
    pack: str, values: list[tuple[float, float | None]], seed: int, window: int
) -> None:
    rows = rows_of(values)
    chance = random.Random(seed)
    # Moving a row by less than the window keeps every step within it.
    shuffled = sorted(rows, key=lambda row: (row.step + chance.random() * window, len(row.values)))
    assert told(pack, shuffled, window=window) == told(pack, rows, window=window)


@settings(max_examples=15, deadline=None)
@given(values=STEPS, cuts=st.lists(st.floats(0, 1), max_size=6))
def test_any_chunking_of_a_growing_file_equals_the_replay(
    pack: str, tmp_path_factory: pytest.TempPathFactory, values: list[tuple[float, float | None]], cuts: list[float]
) -> None:
    lines = b"".join((json.dumps({"rollout/step": row.step, **row.values}) + "\n").encode() for row in rows_of(values))
    path = tmp_path_factory.mktemp("chunks") / "metrics.jsonl"
    path.write_bytes(lines)
    whole: list[Alert] = []
    replayed = Session(Opened(MetricsFile(path), "x"), [pack])
    replayed.listener.alert = whole.append
    replayed.replay()
    path.write_bytes(b"")
    done = [False]
    live: list[Alert] = []
    ends = iter([*sorted(int(cut * len(lines)) for cut in cuts), len(lines)])

    def grow(_: float) -> None:
        end = next(ends, None)
        if end is None:
            done[0] = True
            return
        with path.open("ab") as file:
            file.write(lines[path.stat().st_size : end])

    following = Session(Opened(MetricsFile(path, is_finished=lambda: done[0]), "x"), [pack])
    following.listener.alert = live.append
    following.follow(pause=grow, clock=lambda: 0.0)
    assert live == whole


@settings(max_examples=20, deadline=None)
@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=30), holes=st.sets(st.integers(0, 60)))
def test_a_nan_alone_neither_breaches_nor_clears(pack: str, values: list[float], holes: set[int]) -> None:
    """NaN points put between the others move nothing but steps."""
    plain = [Row(step, {"a": value}) for step, value in enumerate(values)]
    mixed: list[Row] = []
    for value in values:
        while len(mixed) in holes:
            mixed.append(Row(len(mixed), {"a": math.nan}))
        mixed.append(Row(len(mixed), {"a": value}))
    kept = [row.step for row in mixed if not math.isnan(row.values["a"])]

    def places(rows: list[Row], step_of: list[int]) -> list[tuple[str, int]]:
        return [(a.rule, step_of.index(a.step)) for a in told(pack, rows) if a.rule in ("high", "mean")]

    assert places(mixed, kept) == places(plain, list(range(len(plain))))


def test_rows_of_one_step_are_one_frame_and_a_late_row_joins_its_own_series() -> None:
    frames = Frames(window=1)
    rows = [Row(0, {"a": 1}), Row(0, {"b": 1}), Row(1, {"a": 2}), Row(2, {"a": 3}), Row(0, {"c": 9})]
    seen = [*frames.add(rows), *frames.flush()]
    assert [(frame.step, dict(frame.values)) for frame in seen] == [
        (0, {"a": 1, "b": 1}),
        (1, {"a": 2}),
        (0, {"c": 9}),
        (2, {"a": 3}),
    ]


def test_a_resume_from_an_old_checkpoint_is_a_new_segment() -> None:
    session = Session(
        Opened(Given([Row(s, {"train/grad_norm": 1.0}) for s in (*range(20), *range(10, 30))]), "x"), ["invariants"]
    )
    session.replay()
    assert session.engine.segment == 1
    series = session.engine.history.get("train/grad_norm")
    assert series is not None
    assert series.steps == list(range(30))


def test_a_metric_that_the_run_does_not_log_is_an_error_with_near_names(tmp_path: Path) -> None:
    pack = tmp_path / "p.yaml"
    pack.write_text(
        "rules:\n  - {name: r, metric: train/grad_nrm, above: 1}\n  - {name: s, metric: nothing, above: 1}\n"
    )
    rows = [Row(step, {"actor/grad_norm": 1.0}) for step in range(6)]
    with pytest.raises(BadInput, match=r"does not log train/grad_nrm") as caught:
        Session(Opened(Given(rows), "x"), [str(pack)]).replay()
    assert len(caught.value.diagnostics) == 2
    assert "train/grad_norm" in caught.value.diagnostics[0].hint


def test_best_mean_is_right_after_every_point() -> None:
    history = History()
    chance = random.Random(1)
    values: list[float] = []
    for step in range(60):
        values.append(chance.random())
        history.add(Row(step, {"m": values[-1]}))
        series = history.get("m")
        assert series is not None
        means = [sum(values[i : i + 5]) / 5 for i in range(len(values) - 4)]
        assert series.best_mean(5) == (pytest.approx(max(means)) if means else None)
