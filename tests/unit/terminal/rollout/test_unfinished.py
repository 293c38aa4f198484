"""Prompts that a rollout left unfinished: first in the next draw, each once, the same ones after a resume."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t1cli.terminal.rollout.draw import draw, tasks_at
from t1cli.terminal.rollout.unfinished import MOST_REPEATS, Again, DrawRecord, DrawState


def campaign(count: int, leaves: list[list[int]]) -> tuple[list[tuple[int, ...]], list[DrawState]]:
    """What each rollout draws, and the state before each, when rollout i leaves these indexes unfinished."""
    state, drawn, states = DrawState(0), [], []
    for left in leaves:
        states.append(state)
        positions = state.positions(count)
        drawn.append(positions)
        state = state.after(count, {positions[index % count] for index in left})
    return drawn, [*states, state]


@pytest.mark.catalogue("S9")
@given(count=st.integers(1, 6), leaves=st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=12))
def test_an_unfinished_prompt_comes_next_and_every_place_in_order(count: int, leaves: list[list[int]]) -> None:
    drawn, states = campaign(count, leaves)
    new: list[int] = []
    for index, positions in enumerate(drawn):
        assert len(set(positions)) == len(positions) == count, "no prompt twice in one rollout"
        carried = [one.position for one in states[index].again]
        assert list(positions[: len(carried)]) == carried, "what was left comes first"
        new += [position for position in positions if position not in carried]
        left = {positions[i % count] for i in leaves[index]}
        assert {one.position for one in states[index + 1].again} <= left, "nothing comes again that was finished"
        again = {one.position: one.repeats for one in states[index].again}
        assert left - {one.position for one in states[index + 1].again} == {
            position for position in left if again.get(position, 0) == MOST_REPEATS
        }
    assert new == list(range(len(new))), "new prompts are the stream, no position left out or taken twice"


def test_one_that_never_finishes_gives_its_place_back_unless_its_trials_go_on() -> None:
    state = DrawState(0)
    for _ in range(MOST_REPEATS):
        state = state.after(2, {0})
        assert state.positions(2)[0] == 0
    assert state.after(2, {0}).again == ()
    assert state.after(2, {0}, going_on={0}).again == (Again(0, MOST_REPEATS + 1),)


def test_nothing_unfinished_is_the_ordinary_draw(doubles: SimpleNamespace) -> None:
    tasks = [doubles.task_named(f"t{index}") for index in range(5)]
    state = DrawState(0)
    for rollout_id in range(7):
        ordinary = draw(tasks, rollout_id=rollout_id, count=3, seed=4)
        assert tasks_at(tasks, state.positions(3), seed=4) == ordinary
        state = state.after(3, ())


def test_the_record_gives_a_resume_the_same_draw_and_an_interrupted_rollout_changes_nothing(tmp_path: Path) -> None:
    record = DrawRecord(tmp_path)
    state = record.before(0, 4).after(4, {1, 3})
    record.write(1, state)
    assert DrawRecord(tmp_path).before(1, 4) == state
    assert state.positions(4) == (1, 3, 4, 5)
    # The same rollout, run again after a crash, may leave others unfinished; what it drew itself stays.
    record.write(2, state.after(4, {4}))
    record.write(2, state.after(4, {3}))
    assert DrawRecord(tmp_path).before(1, 4) == state
    assert DrawRecord(tmp_path).before(2, 4) == DrawState(6, (Again(3, 2),))


@pytest.mark.parametrize("content", [None, "", "{", '{"format_version": 99}', '{"format_version": 1, "again": 3}'])
def test_without_a_readable_record_the_draw_goes_on_as_if_all_had_finished(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "before_rollout_000003.json").write_text(content)
    assert DrawRecord(tmp_path).before(3, 5) == DrawState(15)
    assert "left unfinished" in caplog.text
