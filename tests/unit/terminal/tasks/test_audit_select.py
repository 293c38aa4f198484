"""Selection takes the best, spreads over families, and gives each task a reason."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t1cli.errors import BadInput
from t1cli.spec.locate import presets_dir
from t1cli.terminal.tasks.audit.audit_pool import PoolAudit, TaskAudit
from t1cli.terminal.tasks.audit.rubric import load_rubric
from t1cli.terminal.tasks.audit.select import select


def task(name: str, family: str, score: float, **more: object) -> TaskAudit:
    return TaskAudit(name, family, f"Do {name}.", score=score, **more)  # type: ignore[arg-type]


def test_families_take_turns_and_the_best_come_first() -> None:
    pool = PoolAudit(
        (task("a", "x", 0.9), task("b", "x", 0.95), task("c", "x", 0.8), task("d", "y", 0.7), task("e", "y", 0.65)), 0.6
    )
    choices = select(pool, 3)
    assert [choice.task for choice in choices if choice.taken] == ["b", "d", "a"]
    assert [choice.reason for choice in choices] == [
        "score 0.95, 1 of 3 in family x",
        "score 0.70, 1 of 2 in family y",
        "score 0.90, 2 of 3 in family x",
        "score 0.65, 2 of 2 in family y; 3 are taken",
        "score 0.80, 3 of 3 in family x; 3 are taken",
    ]


def test_every_task_that_is_left_has_its_reason() -> None:
    pool = PoolAudit(
        (
            task("a1", "x", 0.9),
            task("a2", "x", 0.8),
            task("low", "x", 0.5),
            task("leaky", "x", 1.0, rejections=("test_leakage",)),
            task("bad", "x", 1.0, broken=("task.toml is missing",)),
            task("open", "x", 1.0, unjudged="judge away"),
        ),
        0.6,
    )
    reasons = {choice.task: (choice.taken, choice.reason) for choice in select(pool, 4)}
    assert reasons == {
        "a1": (True, "score 0.90, 1 of 1 in family x"),
        "a2": (False, "the same instruction as a1, but for numbers"),
        "low": (False, "score 0.50 is below 0.6"),
        "leaky": (False, "rejected for test_leakage"),
        "bad": (False, "broken: task.toml is missing"),
        "open": (False, "not judged: judge away"),
    }


@given(
    st.lists(st.tuples(st.sampled_from("wxyz"), st.floats(0, 1)), max_size=40),
    st.integers(1, 50),
)
def test_a_selection_is_whole_fair_and_of_the_best(drawn: list[tuple[str, float]], count: int) -> None:
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    tasks = tuple(
        TaskAudit(letters[n], family, f"Do {chr(0x4E00 + n)}.", score=score) for n, (family, score) in enumerate(drawn)
    )
    choices = select(PoolAudit(tasks, 0.3), count)
    assert sorted(choice.task for choice in choices) == sorted(task.name for task in tasks)
    by_name = {task.name: task for task in tasks}
    good = [task for task in tasks if task.score >= 0.3]
    taken = [by_name[choice.task] for choice in choices if choice.taken]
    assert len(taken) == min(count, len(good)) and all(task.score >= 0.3 for task in taken)
    shares, present = Counter(task.family for task in taken), Counter(task.family for task in good)
    for family, share in shares.items():
        assert all(share <= shares[other] + 1 or shares[other] == present[other] for other in present), family
        left = [task.score for task in good if task.family == family and task not in taken]
        assert max(left, default=0.0) <= min(task.score for task in taken if task.family == family)


def test_a_broken_rubric_is_told_whole(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no rubric"):
        load_rubric("nowhere")
    path = tmp_path / "own.yaml"
    text = (presets_dir() / "audit" / "t1.yaml").read_text()
    text = text.replace("weight: 20", "weight: -1", 1).replace("score_min: 0.6", "score_min: high")
    path.write_text(text.replace("  clear:", "  cleer:").replace("checks_full", "checks_ful"))
    with pytest.raises(BadInput) as caught:
        load_rubric(str(path))
    told = {d.message: (d.where.removeprefix(f"{path}:"), d.hint) for d in caught.value.diagnostics}
    line = {part: number for number, text in enumerate(path.read_text().splitlines(), 1) for part in text.split()}
    assert told["unknown key `cleer` in `dimensions`"] == (f"{line['cleer:']}:3", "did you mean `clear`?")
    assert told["unknown key `checks_ful` in `limits`"][1] == "did you mean `checks_full`?"
    assert told["`limits.checks_full` is missing"]
    assert told['`limits.score_min` must be a number, found "high"'][0] == f"{line['score_min:']}:3"
    assert "`dimensions.specified.weight` must be above 0, found -1" in told
    for broken in ("dimensions: [", "- a", "", "version: 1\ndimensions: {}\n"):
        path.write_text(broken)
        with pytest.raises(BadInput):
            load_rubric(str(path))


def test_the_shipped_rubric_weighs_to_a_hundred() -> None:
    assert sum(dimension.weight for dimension in load_rubric().dimensions.values()) == 100
