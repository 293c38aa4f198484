"""The supervised start learns from siblings that share no name with the pool or the unseen test set."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from t1cli.embedded.model import TinyMoE
from t1cli.embedded.siblings import held_out_names, pool_names, sibling_stream, unseen_siblings, write_tasks
from t1cli.embedded.supervised import Settings, example, train_supervised
from t1cli.embedded.template import TinyChatTemplate
from t1cli.embedded.warm_start import Lesson
from tests.unit.embedded.conftest import tiny_config

POOL = Path(__file__).parents[3] / "experiments/quickstart/tasks"
CONFIG = tiny_config(512, expert_size=32)


def test_siblings_avoid_the_pool_and_the_unseen_set() -> None:
    names = held_out_names(POOL)
    assert len(names.pool) >= 60 and names.unseen and not names.pool & names.unseen
    lesson = Lesson(0, names.all)
    first = list(itertools.islice(lesson.tasks(), 200))
    lesson.easy = False
    for task in [*first, *itertools.islice(lesson.tasks(), 200)]:
        assert not names.all & set(task.names)


def test_lessons_start_with_one_step_and_go_on_to_all() -> None:
    lesson = Lesson(0, frozenset())
    tasks = lesson.tasks()
    assert {next(tasks).difficulty for _ in range(50)} == {1}
    lesson.easy = False
    assert {next(tasks).difficulty for _ in range(50)} == {1, 2, 3}


def test_the_same_seed_gives_the_same_stream() -> None:
    first, second, other = (itertools.islice(sibling_stream(seed, frozenset()), 20) for seed in (4, 4, 5))
    assert list(first) == list(second) != list(other)


def test_the_unseen_set_is_fixed_and_loads(tmp_path: Path) -> None:
    names = pool_names(POOL)
    unseen = unseen_siblings(names)
    assert unseen == unseen_siblings(names) and len(unseen) == 60
    tasks = write_tasks(unseen, tmp_path)
    assert len({task.name for task in tasks}) == 60
    assert {task.family for task in tasks} == {task.family for task in unseen}


def test_an_example_is_what_the_harness_would_have_sent_and_sampled() -> None:
    template, task = TinyChatTemplate(), unseen_siblings(frozenset())[9]
    assert len(task.solution) > 1
    ids = template.render_task(task.instruction)
    expected = [0] * len(ids)
    for number, command in enumerate(task.solution, 1):
        said, heard = template.render_reply(command), template.render_observation("")
        ids, expected = (*ids, *said, *heard), expected + [number] * len(said) + [0] * len(heard)
    done = template.render_reply("")
    one = example(task, template)
    assert one.tokens == (*ids, *done)
    assert one.reply == (*expected, *[len(task.solution) + 1] * len(done))


def test_the_command_probability_is_that_of_exact_commands() -> None:
    model, template = TinyMoE(CONFIG, seed=0), TinyChatTemplate()
    tasks = unseen_siblings(frozenset(), 4)
    with torch.no_grad():
        expected = [probability for task in tasks for probability in _command_probabilities(model, template, task)]
    report = next(train_supervised(model, tasks, Settings(batch=4)))
    assert report.command_probability == pytest.approx(sum(expected) / len(expected), rel=1e-3)


def _command_probabilities(model: TinyMoE, template: TinyChatTemplate, task: object) -> list[float]:
    one = example(task, template)  # type: ignore[arg-type]
    log_probs = model(torch.tensor([one.tokens])).logits[0].log_softmax(-1)
    scored = [float(log_probs[place, token]) for place, token in enumerate(one.tokens[1:])]
    commands = range(1, max(one.reply))
    sums = [sum(s for s, owner in zip(scored, one.reply[1:], strict=True) if owner == number) for number in commands]
    return [float(torch.tensor(total).exp()) for total in sums]


def test_training_lowers_the_loss() -> None:
    reports = list(train_supervised(TinyMoE(CONFIG, seed=0), unseen_siblings(frozenset(), 320), Settings(batch=16)))
    assert len(reports) == 20
    assert reports[-1].loss < 0.75 * reports[0].loss
