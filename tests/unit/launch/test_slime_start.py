"""Where a slime session begins, told from what a crash at any moment leaves in the role directories."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.errors import Refused
from t1cli.launch.slime.start import start_point
from t1cli.run.checkpoint_manifest import TRACKER, iteration_directory
from t1cli.run.directory import RunDirectory
from t1cli.slime.start_point import base_arguments, role_overrides
from t1cli.spec.load import load_experiment

SPEC = load_experiment(Path("quickstart"), ["engine.kind=slime"]).spec


def save(directory: Path, rollout: int, *, finished: bool = True) -> None:
    place = iteration_directory(directory, rollout)
    place.mkdir(parents=True, exist_ok=True)
    (place / "weights").write_bytes(b"x" * 10)
    if finished:
        (directory / TRACKER).write_text(str(rollout))


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "quickstart/attempt_1")


def test_nothing_saved_is_a_fresh_start(run: RunDirectory) -> None:
    start = start_point(SPEC, run, "f")
    assert start.kind == "fresh" and base_arguments(start, actor_dir="/a") == {}
    assert role_overrides(start, critic_dir="/c") == {"actor": {}, "critic": {}}


def test_both_roles_go_on_at_their_common_rollout(run: RunDirectory) -> None:
    for rollout in (1, 3):
        save(run.actor_checkpoints, rollout)
        save(run.critic_checkpoints, rollout)
    start = start_point(SPEC, run, "f")
    assert (start.kind, start.rollout, start.actor_step, start.critic_step) == ("resume", 3, None, None)
    assert base_arguments(start, actor_dir="/a")["--load"] == "/a"
    assert role_overrides(start, critic_dir="/c")["critic"]["load"] == "/c"


def test_a_crash_between_the_two_saves_goes_back_for_both(run: RunDirectory) -> None:
    save(run.actor_checkpoints, 1)
    save(run.critic_checkpoints, 1)
    save(run.actor_checkpoints, 3)
    save(run.critic_checkpoints, 3, finished=False)
    start = start_point(SPEC, run, "f")
    assert (start.rollout, start.actor_step, start.critic_step) == (1, 1, None)
    assert role_overrides(start, critic_dir="/c")["actor"] == {"ckpt_step": 1}


@pytest.mark.catalogue("C2")
def test_a_critic_alone_goes_on_while_rollouts_start_over(run: RunDirectory) -> None:
    save(run.critic_checkpoints, 2)
    start = start_point(SPEC, run, "f")
    assert start.kind == "critic_only" and base_arguments(start, actor_dir="/a") == {}
    critic = role_overrides(start, critic_dir="/c")["critic"]
    assert critic["load"] == "/c" and critic["finetune"] is False and critic["no_load_optim"] is False


def test_a_foreign_or_damaged_checkpoint_is_refused(run: RunDirectory) -> None:
    save(run.actor_checkpoints, 1)
    save(run.critic_checkpoints, 1)
    start_point(SPEC, run, "f")
    with pytest.raises(Refused, match="belongs to campaign"):
        start_point(SPEC, run, "another family")
    (iteration_directory(run.actor_checkpoints, 1) / "weights").write_bytes(b"torn")
    with pytest.raises(Refused, match="cannot be used"):
        start_point(SPEC, run, "f")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 5), st.booleans(), st.booleans())
def test_whatever_the_last_save_left_the_start_is_whole_in_both_roles(
    tmp_path_factory: pytest.TempPathFactory, saves: int, actor_done: bool, critic_begun: bool
) -> None:
    run = RunDirectory(tmp_path_factory.mktemp("r") / "quickstart/attempt_1")
    for rollout in range(saves):
        save(run.actor_checkpoints, rollout)
        save(run.critic_checkpoints, rollout)
    save(run.actor_checkpoints, saves, finished=actor_done)
    if actor_done and critic_begun:
        save(run.critic_checkpoints, saves, finished=False)
    if saves == 0 and actor_done:
        with pytest.raises(Refused):
            start_point(SPEC, run, "f")
        return
    start = start_point(SPEC, run, "f")
    assert start.rollout == (saves - 1 if saves else None)
