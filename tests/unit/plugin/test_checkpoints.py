"""Guards and retention: distinct directories, whole checkpoints, and no crash that loses one."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from t1cli.errors import Refused
from t1cli.plugin.checkpoints.guard import assert_own_directories
from t1cli.plugin.checkpoints.keeper import keep, whole_rollouts
from t1cli.plugin.checkpoints.retention import prune, rollouts_to_keep
from t1cli.plugin.checkpoints.scores import record_scores, scores
from t1cli.plugin.settings import Settings, settings_of
from t1cli.run.checkpoint_manifest import (
    TRACKER,
    Owner,
    iteration_directory,
    problem_of,
    saved_rollouts,
    seal,
    seal_finished,
)
from t1cli.run.claims import claim
from t1cli.run.pins import pin, unpin
from t1cli.run.save_directories import SaveDirectories, newest_saved_rollout

OWNER = Owner("c", "f" * 12, "/runs/c/attempt_1", "actor")


def save(directory: Path, rollout: int, *, finished: bool = True, size: int = 1000) -> Path:
    """A checkpoint as Megatron leaves it: files first, the tracker last."""
    place = iteration_directory(directory, rollout)
    place.mkdir(parents=True)
    (place / "__0_0.distcp").write_bytes(bytes([rollout % 256]) * size)
    (place / "common.pt").write_bytes(b"x" * 10)
    if finished:
        (place / ".metadata").write_bytes(b"m" * 10)
        (directory / TRACKER).write_text(str(rollout))
    return place


def test_a_sealed_checkpoint_is_whole_until_it_changes(tmp_path: Path) -> None:
    place = save(tmp_path, 4, size=5_000_000)
    assert "no manifest" in problem_of(tmp_path, 4, OWNER)
    assert seal_finished(tmp_path, OWNER) == (4,) and problem_of(tmp_path, 4, OWNER) == ""
    assert newest_saved_rollout(SaveDirectories(tmp_path, None)) == 5, "the rollout that comes next"
    with (place / "__0_0.distcp").open("r+b") as stream:
        stream.seek(-1, 2)
        stream.write(b"!")
    assert "__0_0.distcp has changed" in problem_of(tmp_path, 4, OWNER)
    (place / "common.pt").unlink()
    (place / "__0_0.distcp").unlink()
    assert problem_of(tmp_path, 4, OWNER) != ""


def test_a_half_written_checkpoint_is_not_sealed(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 3, finished=False)
    assert seal_finished(tmp_path, OWNER) == (1,)
    assert problem_of(tmp_path, 3, OWNER).startswith("no manifest")
    iteration_directory(tmp_path, 9).mkdir()
    assert seal(tmp_path, 9, OWNER) == "the directory is empty"


def test_a_save_that_broke_off_is_not_sealed_when_later_ones_are_finished(tmp_path: Path) -> None:
    save(tmp_path, 3, finished=False)
    save(tmp_path, 7)
    assert seal_finished(tmp_path, OWNER) == (7,)
    assert "no .metadata" in seal(tmp_path, 3, OWNER) and "no manifest" in problem_of(tmp_path, 3, OWNER)
    (iteration_directory(tmp_path, 7) / ".metadata").unlink()
    assert ".metadata: No such file" in problem_of(tmp_path, 7, OWNER)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (Owner("d", "f" * 12, "/x", "actor"), "belongs to campaign"),
        (Owner("c", "g" * 12, "/x", "actor"), "belongs to campaign"),
        (Owner("c", "f" * 12, "/x", "critic"), "holds the actor"),
    ],
)
def test_a_foreign_checkpoint_is_refused(tmp_path: Path, other: Owner, says: str) -> None:
    save(tmp_path, 1)
    seal_finished(tmp_path, OWNER)
    assert says in problem_of(tmp_path, 1, other)


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    claim(tmp_path, OWNER)
    claim(tmp_path, OWNER)
    with pytest.raises(Refused, match=r"belongs to /runs/c/attempt_1"):
        claim(tmp_path, Owner("c", "f" * 12, "/runs/c/attempt_2", "actor"))
    with pytest.raises(Refused, match=r"the actor's, not the critic's"):
        claim(tmp_path, Owner("c", "f" * 12, "/runs/c/attempt_1", "critic"))
    save(tmp_path / "used", 3)
    with pytest.raises(Refused, match="unknown origin"):
        claim(tmp_path / "used", OWNER)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "t1_campaign.json").touch()
    with pytest.raises(Refused, match="cannot be read"):
        claim(tmp_path / "torn", OWNER)


@pytest.mark.parametrize("links", [True, False])
def test_of_campaigns_that_claim_at_once_one_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    """Both have found the directory free before either writes, as on two hosts with a shared disk."""
    other, link, done = Owner("d", "g" * 12, "/runs/d/attempt_1", "actor"), os.link, []

    def overtaken(source: Path, target: Path) -> None:
        if not done:
            done.append(target)
            claim(tmp_path, other)
        if not links:
            raise OSError(errno.EPERM, "no hard links here")
        link(source, target)

    monkeypatch.setattr(os, "link", overtaken)
    with pytest.raises(Refused, match=r"belongs to /runs/d/attempt_1 \(campaign `d`\)"):
        claim(tmp_path, OWNER)
    claim(tmp_path, other)
    assert [path.name for path in tmp_path.iterdir()] == ["t1_campaign.json"]


@pytest.mark.catalogue("C2")
@pytest.mark.parametrize("critic", ["{actor}", "{actor}/critic", None])
def test_roles_that_share_files_stop_the_job_before_it_trains(namespace, tmp_path: Path, critic: str | None) -> None:
    settings = settings_of(namespace())
    actor = str(settings.actor_dir)
    file = tmp_path / "roles.yaml"
    overrides = {} if critic is None else {"save": critic.format(actor=actor)}
    file.write_text(yaml.safe_dump({"megatron": [{"name": "c", "role": "critic", "overrides": overrides}]}))
    args = namespace(save=actor, advantage_estimator="ppo", megatron_config_path=str(file))
    with pytest.raises(Refused, match="C2"):
        assert_own_directories(args, settings)


def test_distinct_directories_are_claimed(namespace, tmp_path: Path) -> None:
    settings = settings_of(namespace())
    file = tmp_path / "roles.yaml"
    overrides = {"save": str(settings.critic_dir)}
    file.write_text(yaml.safe_dump({"megatron": [{"name": "c", "role": "critic", "overrides": overrides}]}))
    args = namespace(save=str(settings.actor_dir), advantage_estimator="ppo", megatron_config_path=str(file))
    assert_own_directories(args, settings)
    assert (settings.actor_dir / "t1_campaign.json").exists() and (settings.critic_dir / "t1_campaign.json").exists()


@pytest.mark.catalogue("C3")
@given(
    st.sets(st.integers(0, 60), max_size=15),
    st.dictionaries(st.integers(0, 60), st.floats(-5, 5), max_size=15),
    st.sets(st.integers(0, 60), max_size=3),
    st.integers(1, 5),
    st.integers(0, 2),
)
def test_retention_keeps_the_newest_the_best_and_the_pinned(whole, scored, pins, latest, best) -> None:
    kept = rollouts_to_keep(whole, scored, keep_latest=latest, keep_best=best, pinned=pins)
    assert kept <= whole and set(sorted(whole)[-latest:]) <= kept and (pins & whole) <= kept
    top = sorted((r for r in scored if r in whole), key=lambda r: (-scored[r], r))[:best]
    assert set(top) <= kept
    assert len(kept) <= latest + best + len(pins)


def fill(settings: Settings, rollouts: range) -> None:
    for rollout in rollouts:
        save(settings.actor_dir, rollout)
        save(settings.critic_dir, rollout)


@pytest.mark.catalogue("C3")
def test_the_best_by_evaluation_outlives_the_latest_five(settings: Settings) -> None:
    for rollout in range(1, 9):
        fill(settings, range(rollout, rollout + 1))
        record_scores(settings.actor_dir, rollout, {"terminal/reward_mean": 1.0 if rollout == 2 else 0.1})
        keep(settings)
    assert saved_rollouts(settings.actor_dir) == saved_rollouts(settings.critic_dir) == (2, 4, 5, 6, 7, 8)
    assert whole_rollouts(settings) == {2, 4, 5, 6, 7, 8}


def test_the_evaluation_before_training_belongs_to_no_checkpoint(settings: Settings) -> None:
    settings.actor_dir.mkdir(parents=True)
    record_scores(settings.actor_dir, 0, {"m": 1.0})
    assert scores(settings.actor_dir, "m") == {}
    fill(settings, range(1))
    record_scores(settings.actor_dir, 0, {"m": 0.5})
    assert scores(settings.actor_dir, "m") == {0: 0.5}, "the one behind the first save does"


def test_a_pinned_checkpoint_stays(settings: Settings) -> None:
    fill(settings, range(1, 3))
    checkpoint = iteration_directory(settings.actor_dir, 1)
    pin(checkpoint, by="t1 watch", reason="peak")
    # What a person does: existence alone pins, and one role's pin keeps every role's.
    (settings.critic_dir / "iter_0000002.pinned").touch()
    fill(settings, range(3, 10))
    keep(settings)
    assert saved_rollouts(settings.actor_dir)[:2] == saved_rollouts(settings.critic_dir)[:2] == (1, 2)
    unpin(checkpoint, by="somebody else")
    unpin(iteration_directory(settings.critic_dir, 2), by="t1 watch")
    keep(settings)
    assert saved_rollouts(settings.actor_dir)[:2] == (1, 2), "only its own"
    unpin(checkpoint, by="t1 watch")
    keep(settings)
    assert saved_rollouts(settings.actor_dir)[0] == saved_rollouts(settings.critic_dir)[0] == 2


def test_damaged_checkpoints_are_no_copies_and_are_not_deleted_for_others(settings: Settings) -> None:
    fill(settings, range(1, 8))
    keep(settings)
    before = saved_rollouts(settings.actor_dir)
    for rollout in before:
        (iteration_directory(settings.critic_dir, rollout) / "common.pt").write_bytes(b"torn")
    assert whole_rollouts(settings) == frozenset() and keep(settings) == ()
    assert saved_rollouts(settings.actor_dir) == before, "nothing whole remains: nothing is deleted"


def test_the_only_copy_and_the_trackers_one_are_never_deleted(tmp_path: Path) -> None:
    save(tmp_path, 1)
    assert prune([tmp_path], {1}, set()) == () and saved_rollouts(tmp_path) == (1,)
    save(tmp_path, 2)
    assert prune([tmp_path], {1, 2}, {1}) == () and saved_rollouts(tmp_path) == (1, 2)


@pytest.mark.parametrize("crash_at", range(1, 9))
def test_a_crash_at_any_moment_of_a_deletion_leaves_whole_checkpoints(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, crash_at: int
) -> None:
    fill(settings, range(1, 8))
    calls = itertools.count(1)
    rename, rmtree = Path.rename, shutil.rmtree

    def crashing(original):
        def wrapped(*args, **kwargs):
            if next(calls) == crash_at:
                raise KeyboardInterrupt
            return original(*args, **kwargs)

        return wrapped

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", crashing(rename))
        patch.setattr(shutil, "rmtree", crashing(rmtree))
        with pytest.raises(KeyboardInterrupt):
            for _ in range(4):
                keep(settings)
            raise KeyboardInterrupt
    assert {3, 4, 5, 6, 7} <= whole_rollouts(settings)
    keep(settings)
    assert whole_rollouts(settings) == {3, 4, 5, 6, 7}
    assert not list(settings.actor_dir.glob(".deleting-*")) and not list(settings.critic_dir.glob(".deleting-*"))
