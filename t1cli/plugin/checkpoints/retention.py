"""Which finished checkpoints stay, and a deletion that a crash cannot turn into a loss.

Best by an evaluation metric plus the newest ones; the training reward is no measure of the best (its peak is where a
run begins to exploit its verifiers). What is deleted first vanishes by one rename, so that no half-deleted directory
ever looks like a checkpoint.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from t1cli.run.checkpoint_manifest import finished_rollout, iteration_directory

_GONE: Final = ".deleting-"


def rollouts_to_keep(
    whole: Collection[int],
    scores: Mapping[int, float],
    *,
    keep_latest: int,
    keep_best: int,
    pinned: Collection[int] = (),
) -> frozenset[int]:
    """Of rollouts that every role has a whole checkpoint of: the newest, the best scored (earliest of equals), pins.

    (catalogue C3 at launch)
    """
    newest = sorted(whole)[-keep_latest:]
    ranked = sorted((rollout for rollout in scores if rollout in whole), key=lambda r: (-scores[r], r))
    return frozenset(newest) | frozenset(ranked[:keep_best]) | (frozenset(pinned) & frozenset(whole))


def prune(role_directories: Sequence[Path], whole: Collection[int], keep: Collection[int]) -> tuple[int, ...]:
    """Delete whole checkpoints that are not kept, all roles together; returns their rollouts.

    Never the one a tracker points to, and nothing at all unless a whole checkpoint of every role remains.
    """
    finish_deletions(role_directories)
    latest = {finished_rollout(directory) for directory in role_directories}
    gone = [rollout for rollout in sorted(whole) if rollout not in keep and rollout not in latest]
    if not set(whole) - set(gone):
        return ()
    for rollout in gone:
        for directory in role_directories:
            _delete(directory, rollout)
    return tuple(gone)


def finish_deletions(role_directories: Sequence[Path]) -> None:
    """Remove what a deletion that was cut off has left."""
    for directory in role_directories:
        for leftover in directory.glob(f"{_GONE}*"):
            shutil.rmtree(leftover, ignore_errors=True)


def _delete(directory: Path, rollout: int) -> None:
    found = iteration_directory(directory, rollout)
    if not found.is_dir():
        return
    aside = directory / f"{_GONE}{found.name}"
    shutil.rmtree(aside, ignore_errors=True)
    found.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)
