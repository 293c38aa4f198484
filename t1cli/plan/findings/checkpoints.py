"""M10, C3, C8: what saving costs, what retention deletes, and what a crash costs."""

from __future__ import annotations

from collections.abc import Iterator

from t1cli.plan.draft import Draft
from t1cli.plan.plan import Finding

DISK_TIGHT_SHARE = 0.8


def disk_fills(draft: Draft) -> Iterator[Finding]:
    """M10: saves × roles × retention against the free disk."""
    disk, checkpoint = draft.disk, draft.spec.checkpoint
    if disk.total_gib <= DISK_TIGHT_SHARE * disk.disk_gib:
        return
    roles = "two roles" if draft.spec.algorithm.kind == "ppo" else "one role"
    yield draft.finding(
        "M10",
        "error" if disk.total_gib > disk.disk_gib else "warning",
        key="checkpoint.retention.keep_latest",
        message=f"a {checkpoint.what} save of {roles} is {disk.per_save_gib:,.1f} GiB; {disk.saves_kept} kept and one "
        f"being written are {disk.total_gib:,.1f} GiB of {disk.disk_gib:,.0f} GiB",
        fix=f"--set checkpoint.retention.keep_latest={_saves_that_fit(draft)}"
        + ("" if checkpoint.what == "weights" else ", or --set checkpoint.what=weights"),
    )


def best_weights_deleted(draft: Draft) -> Iterator[Finding]:
    """C3: keep-latest alone deletes the peak of a run that later declines."""
    retention = draft.spec.checkpoint.retention
    if retention.keep_best == 0:
        kept = "save stays" if retention.keep_latest == 1 else f"{retention.keep_latest} saves stay"
        window = retention.keep_latest * draft.spec.checkpoint.every_rollouts
        yield draft.finding(
            "C3",
            "warning",
            key="checkpoint.retention.keep_best",
            message=f"only the latest {kept} ({window} rollouts of "
            f"{draft.spec.rollout.num_rollouts}): a peak before that is deleted. The Qwen3-8B run peaked at iterations "
            f"127 to 183 of 1,095 and kept the last 2",
            fix="--set checkpoint.retention.keep_best=1",
        )
    elif draft.spec.evaluation is None and retention.metric is None:
        yield draft.finding(
            "C3",
            "warning",
            key="checkpoint.retention.metric",
            message=f"keep_best is {retention.keep_best}, but there is no evaluation and no metric to rank saves by: "
            f"what stays is only the latest",
            fix="an `evaluation` block, or --set checkpoint.retention.metric=terminal/reward_mean",
        )


def crash_means_restart(draft: Draft) -> Iterator[Finding]:
    """C8: weights alone cannot be resumed; said with its price."""
    checkpoint, schedule = draft.spec.checkpoint, draft.schedule
    if checkpoint.what == "full":
        return
    price = ""
    if schedule.gpu_hours_per_step is not None and schedule.gpu_hours is not None:
        since_save = min(checkpoint.every_rollouts, schedule.rollouts) * schedule.gpu_hours_per_step
        price = (
            f": at {schedule.gpu_hours_per_step:,.1f} GPU-hours a step, starting over from the last weights loses up "
            f"to {since_save:,.0f} GPU-hours and the optimizer's moments, starting over from scratch up to "
            f"{schedule.gpu_hours:,.0f}"
        )
    yield draft.finding(
        "C8",
        "notice",
        key="checkpoint.what",
        message=f"weights-only saves every {checkpoint.every_rollouts} rollouts: a crash means restart, not resume"
        + price,
        fix="--set checkpoint.what=full if that is too much",
    )


def _saves_that_fit(draft: Draft) -> int:
    fitting = int(DISK_TIGHT_SHARE * draft.disk.disk_gib / draft.disk.per_save_gib)
    return max(1, fitting - 1 - draft.spec.checkpoint.retention.keep_best)


RULES = (disk_fills, best_weights_deleted, crash_means_restart)
