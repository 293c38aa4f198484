"""A checkpoint is there whole or not at all, whatever interrupts its writing."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from t1cli.embedded import checkpoint
from t1cli.embedded.checkpoint import (
    LATEST,
    Progress,
    RoleState,
    complete_iterations,
    newest_common,
    prune,
    read_checkpoint,
    write_checkpoint,
)
from t1cli.embedded.model import TinyMoE, TinyMoEConfig
from t1cli.embedded.weights import save_tensors
from t1cli.errors import T1Error

CONFIG = TinyMoEConfig(32, 8, 1, 1, 1, 8, 2, 1, 4)


class Crash(BaseException):
    """Stands for the process dying at this very call."""


def state(next_rollout: int, *, role: str = "actor", score: float | None = None, fill: float = 1.0) -> RoleState:
    weights = {name: torch.full_like(t, fill) for name, t in TinyMoE(CONFIG).state_dict().items()}
    return RoleState(role, CONFIG, weights, {"exp_avg/x": torch.ones(3)}, Progress(next_rollout, next_rollout, score))


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    written = state(3, score=0.5, fill=0.25)
    write_checkpoint(tmp_path, written)
    found = read_checkpoint(tmp_path, 3, role="actor")
    assert found.progress == written.progress and found.config == CONFIG
    assert found.optimizer is not None and torch.equal(found.optimizer["exp_avg/x"], torch.ones(3))
    assert all(torch.equal(found.weights[name], tensor) for name, tensor in written.weights.items())
    assert (tmp_path / LATEST).read_text() == "iter_0000003\n"
    with pytest.raises(T1Error, match="holds the actor"):
        read_checkpoint(tmp_path, 3, role="critic")


WRITES = ((os, "fsync"), (checkpoint, "save_weights"), (checkpoint, "save_tensors"))


def crash_at(monkeypatch: pytest.MonkeyPatch, fatal_call: int, touching: Sequence[tuple[object, str]]) -> None:
    """Count the calls of all functions that touch the disk; the process dies at the given one."""
    calls = iter(range(1, 1000))

    def counted(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            if next(calls) == fatal_call:
                raise Crash
            return function(*arguments, **named)

        return call

    for owner, name in touching:
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))


@pytest.mark.parametrize("fatal_call", range(1, 12))
def test_a_crash_at_any_write_keeps_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fatal_call: int
) -> None:
    write_checkpoint(tmp_path, state(1))
    crash_at(monkeypatch, fatal_call, (*WRITES, (Path, "rename")))
    try:
        write_checkpoint(tmp_path, state(2, fill=2.0))
        finished = True
    except Crash:
        finished = False
    monkeypatch.undo()
    whole = complete_iterations(tmp_path)
    assert whole in ((1,), (1, 2))
    assert not finished or whole == (1, 2)
    assert read_checkpoint(tmp_path, whole[-1], role="actor").progress.next_rollout == whole[-1]
    write_checkpoint(tmp_path, state(3, fill=3.0))
    assert complete_iterations(tmp_path)[-1] == 3
    assert not list(tmp_path.glob(".writing-*")), "leftovers of the crash are cleared"


@pytest.mark.parametrize("fatal_call", range(1, 13))
def test_a_crash_while_the_newest_iteration_is_saved_again_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fatal_call: int
) -> None:
    """An interruption saves what a due save has just saved; the newest checkpoint is whole at every call's end."""
    write_checkpoint(tmp_path, state(1))
    write_checkpoint(tmp_path, state(2, score=0.25))
    crash_at(monkeypatch, fatal_call, (*WRITES, (Path, "rename"), (Path, "replace"), (shutil, "rmtree")))
    with contextlib.suppress(Crash):
        write_checkpoint(tmp_path, state(2, score=0.5))
    monkeypatch.undo()
    assert complete_iterations(tmp_path) == (1, 2)
    assert read_checkpoint(tmp_path, 2, role="actor").progress.score in (0.25, 0.5)
    write_checkpoint(tmp_path, state(2, score=0.5))
    assert read_checkpoint(tmp_path, 2, role="actor").progress.score == 0.5
    assert not list(tmp_path.glob(".writing-*")), "leftovers of the crash are cleared"


def test_an_iteration_of_an_abandoned_branch_is_replaced(tmp_path: Path) -> None:
    """A resume from an older common iteration trains on differently and comes to the same number again."""
    write_checkpoint(tmp_path, state(2, fill=1.0))
    write_checkpoint(tmp_path, state(2, fill=2.0))
    found = read_checkpoint(tmp_path, 2, role="actor")
    assert all(torch.equal(tensor, torch.full_like(tensor, 2.0)) for tensor in found.weights.values())
    assert not list(tmp_path.glob(".writing-*"))


def test_a_torn_or_altered_file_is_not_taken(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, state(1))
    torn = write_checkpoint(tmp_path, state(2)) / "model.safetensors"
    torn.write_bytes(torn.read_bytes()[:-1])
    assert complete_iterations(tmp_path) == (1,)
    with pytest.raises(T1Error, match="not complete"):
        read_checkpoint(tmp_path, 2, role="actor")


@pytest.mark.parametrize(
    "damage",
    [
        lambda told: [told],
        lambda told: told | {"format_version": 2},
        lambda told: told | {"role": 3},
        lambda told: told | {"files": ["model.safetensors"]},
        lambda told: told | {"files": {"model.safetensors": "x"}},
        lambda told: told | {"files": told["files"] | {"..": {"sha256": "x"}}},
        lambda told: told | {"progress": None},
        lambda told: told | {"progress": told["progress"] | {"score": "high"}},
        lambda told: told | {"progress": {"next_rollout": 2}},
        lambda told: told | {"progress": told["progress"] | {"of_the_future": 1}},
    ],
)
def test_a_manifest_that_is_not_ours_is_passed_over_by_saves_reads_and_retention(damage: Any, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, state(1, score=0.5))
    manifest = write_checkpoint(tmp_path, state(2)) / "manifest.json"
    manifest.write_text(json.dumps(damage(json.loads(manifest.read_text()))))
    assert complete_iterations(tmp_path) == (1,)
    with pytest.raises(T1Error, match="not complete"):
        read_checkpoint(tmp_path, 2, role="actor")
    assert prune([tmp_path], keep_latest=1, keep_best=1) == ()
    write_checkpoint(tmp_path, state(2))
    assert complete_iterations(tmp_path) == (1, 2)


@pytest.mark.parametrize("name", ["manifest.json", "model.safetensors"])
def test_a_pipe_in_a_checkpoint_is_not_waited_for(name: str, tmp_path: Path) -> None:
    directory = write_checkpoint(tmp_path, state(1))
    (directory / name).unlink()
    os.mkfifo(directory / name)
    assert complete_iterations(tmp_path) == ()


def test_roles_resume_from_an_iteration_that_both_have(tmp_path: Path) -> None:
    actor, critic = tmp_path / "actor", tmp_path / "critic"
    assert newest_common([actor, critic]) is None
    for number in (1, 2):
        write_checkpoint(actor, state(number))
    write_checkpoint(critic, state(1, role="critic"))
    assert newest_common([actor, critic]) == 1


def test_retention_keeps_the_newest_and_the_best(tmp_path: Path) -> None:
    actor, critic = tmp_path / "actor", tmp_path / "critic"
    for number, score in ((1, 0.1), (2, 0.9), (3, 0.2), (4, 0.3), (5, None)):
        write_checkpoint(actor, state(number, score=score))
        write_checkpoint(critic, state(number, role="critic", score=score))
    assert prune([actor, critic], keep_latest=2, keep_best=1) == (1, 3)
    assert complete_iterations(actor) == complete_iterations(critic) == (2, 4, 5)


def test_a_pin_keeps_a_checkpoint_of_every_role(tmp_path: Path) -> None:
    actor, critic = tmp_path / "actor", tmp_path / "critic"
    for number in range(1, 5):
        write_checkpoint(actor, state(number))
        write_checkpoint(critic, state(number, role="critic"))
    (critic / "iter_0000002.pinned").touch()
    assert prune([actor, critic], keep_latest=1, keep_best=0) == (1, 3)
    assert complete_iterations(actor) == complete_iterations(critic) == (2, 4)
    (critic / "iter_0000002.pinned").unlink()
    assert prune([actor, critic], keep_latest=1, keep_best=0) == (2,)


def test_a_disk_that_takes_no_more_is_told_as_one_with_the_files_name(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="optimizer") as raised:
            save_tensors(tmp_path / "optimizer.safetensors", {"x": torch.ones(1_000_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert raised.value.errno == errno.EFBIG and list(tmp_path.iterdir()) == []


def test_a_save_that_the_disk_refuses_leaves_the_former_one_and_nothing_of_itself(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, state(1))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_checkpoint(tmp_path, state(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert complete_iterations(tmp_path) == (1,)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["iter_0000001", LATEST]
