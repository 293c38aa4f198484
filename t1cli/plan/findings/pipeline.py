"""C4, C9, staleness and batches: what the pipeline and slime's batching do with the spec."""

from __future__ import annotations

from collections.abc import Iterator

from t1cli.plan.draft import Draft
from t1cli.plan.plan import Finding

# slime's own Gloo group keeps torch's 30 minutes; the report's campaigns set 60, and 120 for NCCL with CP.
GLOO_MINUTES, NCCL_MINUTES_WITH_CP = 60, 120
# The report's baselines collapsed at this lag.
COLLAPSE_STALENESS = 8
# What generating one step ahead comes to.
ORDINARY_STALENESS = 1
# Speed a shared checkpoint store is taken to write at; only a save far above the limit is flagged by it.
ASSUMED_SAVE_GIB_PER_SECOND = 1.0
SLOW_SAVE_SECONDS = 20 * 60


def default_timeouts(draft: Draft) -> Iterator[Finding]:
    """C4: time limits under which a straggler or a cold compile reads as a hang."""
    if not draft.on_slime:
        return
    trainer, cp = draft.spec.trainer, draft.spec.topology.cp
    if trainer.gloo_timeout_minutes < GLOO_MINUTES:
        yield draft.finding(
            "C4",
            "warning",
            key="trainer.gloo_timeout_minutes",
            message=f"Gloo waits {trainer.gloo_timeout_minutes} min at the weight-update barrier; a run of the T1 "
            f"report died there at 30 min while one actor rank was only slow",
            fix=f"--set trainer.gloo_timeout_minutes={GLOO_MINUTES}",
        )
    if cp > 1 and trainer.nccl_timeout_minutes < NCCL_MINUTES_WITH_CP:
        yield draft.finding(
            "C4",
            "warning",
            key="trainer.nccl_timeout_minutes",
            message=f"NCCL waits {trainer.nccl_timeout_minutes} min with CP {cp}: one rank compiling kernels cold for "
            f"longer than that stops its peers (first micro-batches took 489 s, later ones 22 s)",
            fix=f"--set trainer.nccl_timeout_minutes={NCCL_MINUTES_WITH_CP}",
        )
    yield draft.finding(
        "C4",
        "notice",
        key="engine.kind",
        message="stays unpatched: slime's weight-push group keeps torch's default time limit and has no flag; its own "
        "Gloo group and the NCCL groups it rebuilds after offload follow trainer.*_timeout_minutes only through a "
        "patch in the trainer's init hook",
        fix="nothing to set; a push or wake-up near 10 min needs a look at the network first",
    )


def slow_save(draft: Draft) -> Iterator[Finding]:
    """C4: a save that holds a barrier for longer than 20 minutes."""
    seconds = draft.disk.per_save_gib / ASSUMED_SAVE_GIB_PER_SECOND
    if not draft.on_slime or seconds <= SLOW_SAVE_SECONDS:
        return
    yield draft.finding(
        "C4",
        "warning",
        key="checkpoint.what",
        message=f"one save is {draft.disk.per_save_gib:,.0f} GiB: {seconds / 60:.0f} min at an assumed "
        f"{ASSUMED_SAVE_GIB_PER_SECOND:g} GiB/s, and ranks wait for each other at its barrier",
        fix="--set checkpoint.what=weights, or a store known to be faster",
    )


def old_policy(draft: Draft) -> Iterator[Finding]:
    """C9: in a pipeline the ratio's denominator must come from the weights that sampled."""
    algorithm, rollout = draft.spec.algorithm, draft.spec.rollout
    if rollout.pipeline == "sync":
        return
    if algorithm.kind == "grpo" and algorithm.loss == "sft_loss":
        return  # nothing is sampled, so there is no behaviour policy
    keep = algorithm.keep_old_actor
    if keep is False:
        yield draft.finding(
            "C9",
            "error",
            key="algorithm.keep_old_actor",
            message=f"{rollout.pipeline} without keep_old_actor: old log-probs would come from weights one update "
            f"newer than the sampler's, so the ratio is between the wrong policies",
            fix="--set algorithm.keep_old_actor=true, or leave it out",
        )
        return
    copies = draft.host.terms.get("old_actor_snapshots", 0.0)
    yield draft.finding(
        "C9",
        "notice",
        key="rollout.pipeline",
        message=f"{rollout.pipeline} compiles keep-old-actor with update interval 1: the snapshot rotates at the "
        f"weight push" + (f" and its host copies take {copies:,.0f} GiB a node" if copies else ""),
        fix="nothing to do",
    )


def mixed_policy(draft: Draft) -> Iterator[Finding]:
    """C9: where trials go on under new weights, slime knows one set of old weights for a whole batch."""
    rollout = draft.spec.rollout
    if not draft.on_slime or rollout.unfinished != "continue":
        return
    newer = rollout.max_staleness - (1 if rollout.pipeline == "one_step" else 0)
    yield draft.finding(
        "C9",
        "warning",
        key="rollout.unfinished",
        message=f"trials go on in the next rollout: turns that earlier weights sampled are compared with one set of "
        f"weights for the whole batch, up to {newer} updates newer than their own, so their ratio starts away from 1",
        fix=_without_continued(draft),
    )


def _without_continued(draft: Draft) -> str:
    lag = 0 if draft.spec.rollout.pipeline == "sync" else ORDINARY_STALENESS
    return f"--set rollout.unfinished=repeat --set rollout.max_staleness={lag}, or let the clip and the record judge"


def staleness(draft: Draft) -> Iterator[Finding]:
    """A lag above one version, and one at which the report's baselines collapsed."""
    rollout = draft.spec.rollout
    if rollout.max_staleness <= ORDINARY_STALENESS:
        return
    collapsed = rollout.max_staleness >= COLLAPSE_STALENESS
    if rollout.unfinished == "continue" and not collapsed:
        lower = _without_continued(draft)
    else:
        lower = f"--set rollout.max_staleness={COLLAPSE_STALENESS // 2 if collapsed else ORDINARY_STALENESS}"
    yield draft.finding(
        "T-staleness",
        "error" if collapsed and not rollout.allow_staleness else "warning",
        key="rollout.max_staleness",
        message=f"samples may be {rollout.max_staleness} weight versions old, and the turns of one row may span as "
        f"many; the T1 report ran at {ORDINARY_STALENESS}, its baselines collapsed at {COLLAPSE_STALENESS}",
        fix=lower + ("; rollout.allow_staleness=true runs it anyway" if collapsed else ""),
    )


def filter_without_surplus(draft: Draft) -> Iterator[Finding]:
    """Groups are dropped out of the surplus; where there is none, the batch needs them after all."""
    rollout, engine = draft.spec.rollout, draft.spec.engine
    # slime's asynchronous worker, which runs under fully_async, knows no filter: T-noop refuses it there.
    if rollout.dynamic_filter is None or rollout.pipeline == "fully_async":
        return
    # slime's stock rollout draws more groups for those that were dropped.
    if engine.kind == "slime" and engine.rollout_loop == "slime":
        return
    if rollout.groups_launched > rollout.batch_size:
        return
    yield draft.finding(
        "T-filter",
        "warning",
        key="rollout.dynamic_filter",
        message=f"{rollout.batch_size} groups are launched and {rollout.batch_size} trained on: every group that the "
        f"filter drops is taken back, because the batch has to be full",
        fix=f"--set rollout.over_sampling_batch_size={-(-rollout.batch_size * 5 // 4)}",
    )


def colocated_pipeline(draft: Draft) -> Iterator[Finding]:
    """slime's asynchronous driver asserts that engines and trainers do not share GPUs."""
    rollout = draft.spec.rollout
    if not draft.on_slime or not draft.spec.topology.colocated or rollout.pipeline == "sync":
        return
    yield draft.finding(
        "T-pipeline",
        "error",
        key="rollout.pipeline",
        message=f"{rollout.pipeline} on colocated GPUs: slime's train_async.py stops at an assertion, since the next "
        f"rollout would generate on GPUs that train",
        fix="--set rollout.pipeline=sync, or --set topology.colocated=false with rollout GPUs of their own",
    )


def step_below_data_parallel(draft: Draft) -> Iterator[Finding]:
    """An optimizer step with fewer samples than data-parallel ranks."""
    batch, ranks = draft.schedule.samples_per_step, draft.topology.data_parallel
    if batch >= ranks:
        return
    yield draft.finding(
        "T-batch",
        "error",
        key="rollout.batch_size",
        message=f"a step of {batch} samples is smaller than the data-parallel size {ranks}: slime needs a sample for "
        f"every rank",
        fix=f"--set rollout.batch_size={-(-ranks // draft.spec.rollout.samples_per_prompt)} or more, or larger tp, pp "
        f"or cp",
    )


RULES = (
    default_timeouts,
    slow_save,
    old_policy,
    mixed_policy,
    staleness,
    filter_without_surplus,
    colocated_pipeline,
    step_below_data_parallel,
)
