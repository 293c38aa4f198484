"""Generated tasks: deterministic, short, canonical, and siblings that share no name with the pool."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t1cli.terminal.tasks.generator import DIFFICULTIES, FAMILIES, generate, generate_pool, main, sibling
from t1cli.terminal.tasks.words import WORDS, names_in

POOL = Path(__file__).parents[4] / "experiments" / "quickstart" / "tasks"

seeds = st.integers(0, 2**32)


@given(st.sampled_from(sorted(FAMILIES)), st.sampled_from(DIFFICULTIES), seeds)
def test_a_task_is_the_same_for_a_seed_and_small_enough_to_learn(family: str, difficulty: int, seed: int) -> None:
    task = generate(family, difficulty, random.Random(seed))
    assert task == generate(family, difficulty, random.Random(seed))
    assert len(task.solution) == len(task.instruction.splitlines()) == difficulty + (family == "combo")
    assert 1 <= len(task.checks) <= 8
    assert len({check.name for check in task.checks}) == len(task.checks)
    assert all(command and "\n" not in command and len(command) < 80 for command in task.solution)
    assert names_in(task.instruction + " ".join(task.solution)) == set(task.names)
    for number, line in enumerate(task.instruction.splitlines(), 1):
        assert line.startswith(f"{number}. ") and line.endswith(".") and len(line) < 100


@given(seeds)
def test_siblings_never_share_a_name_with_the_pool(seed: int) -> None:
    pool_names = {name for task in generate_pool(60, 0) for name in task.names}
    task = sibling(random.Random(seed), pool_names)
    assert not pool_names & set(task.names)


def test_no_name_occurs_in_two_tasks_of_a_pool() -> None:
    pool = generate_pool(60, 0)
    names = [name for task in pool for name in task.names]
    assert len(names) == len(set(names))
    assert {task.family for task in pool} == set(FAMILIES)
    assert {task.difficulty for task in pool} == set(DIFFICULTIES)


def test_words_are_plain_and_none_hides_in_another() -> None:
    assert len(set(WORDS)) == len(WORDS)
    assert all(word.isalpha() and word.islower() and word.isascii() for word in WORDS)
    # `grep fig` and `s/fig/plum/` must mean one word only.
    assert not [(one, other) for one in WORDS for other in WORDS if one != other and one in other]


def test_the_shipped_pool_is_what_the_generator_writes(tmp_path: Path) -> None:
    main([str(tmp_path), "--count", "60", "--seed", "0"])
    written = {path.relative_to(tmp_path): path for path in tmp_path.rglob("*") if path.is_file()}
    shipped = {path.relative_to(POOL): path for path in POOL.rglob("*") if path.is_file()}
    assert sorted(written) == sorted(shipped)
    for name, path in written.items():
        assert path.read_bytes() == shipped[name].read_bytes(), name
        assert path.stat().st_mode & 0o100 == shipped[name].stat().st_mode & 0o100, name


def test_what_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no task of family"):
        generate("nothing", 1, random.Random(0))
    with pytest.raises(ValueError, match="no free name"):
        generate("write", 1, random.Random(0), {f"{one}_{other}" for one in WORDS for other in WORDS})
