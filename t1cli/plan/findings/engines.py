"""Inference engines whose weights do not fit their share, or whose KV cache is shorter than one trial."""

from __future__ import annotations

from collections.abc import Iterator

from t1cli.plan.draft import Draft
from t1cli.plan.inference import EngineMemory, plan_engine
from t1cli.plan.plan import Finding
from t1cli.spec.harnesses import TERMINUS, WRITTEN, lacks_harbor, names_a_harness, near_names, text_harness_path

# Below this many full contexts per trial in flight, requests are likely to be retracted or queued near the wall.
CROWDED_SHARE = 0.25


def engine_memory(draft: Draft) -> Iterator[Finding]:
    """T-engine: an error where no trial can run to the wall, a notice where only few can at the same time."""
    engine = plan_engine(draft.spec, draft.topology)
    if engine is None:
        return
    if engine.weights_gib >= engine.static_gib:
        yield draft.finding(
            "T-engine",
            "error",
            key="topology.gpus_per_engine",
            message=f"weights need {engine.weights_gib:.1f} GiB per GPU on {draft.spec.topology.gpus_per_engine} GPUs "
            f"per engine, SGLang's static share is {engine.static_gib:.1f} GiB: nothing is left for a KV cache",
            fix=f"--set topology.gpus_per_engine={draft.spec.topology.gpus_per_engine * 2}, or a larger "
            f"engine.mem_fraction_static",
        )
    elif engine.full_contexts < 1:
        yield draft.finding(
            "T-engine",
            "error",
            key="rollout.context_tokens",
            message=f"{_cache(engine)}: fewer than one context of {draft.spec.rollout.context_tokens:,}, so a trial "
            f"can never reach its wall",
            fix=f"--set rollout.context_tokens={engine.kv_tokens}, or more topology.gpus_per_engine",
        )
    elif engine.full_contexts < CROWDED_SHARE * engine.trials_per_engine:
        yield draft.finding(
            "T-engine",
            "notice",
            key="topology.rollout_gpus",
            message=f"{_cache(engine)}: {engine.full_contexts:.1f} trials at the wall, while "
            f"{engine.trials_per_engine:.0f} run on each engine; long ones will be retracted and prefilled again",
            fix="more topology.rollout_gpus, or nothing if few trials come near the wall",
        )


def other_harness(draft: Draft) -> Iterator[Finding]:
    """T-harness: what the spec names cannot run, or does not keep all of the spec."""
    rollout, harness = draft.spec.rollout, draft.spec.rollout.harness
    if not names_a_harness(harness):
        yield draft.finding(
            "T-harness",
            "error",
            key="rollout.harness",
            message=f"`{harness}` names no agent loop",
            fix=near_names(harness) or WRITTEN,
        )
    elif draft.on_slime and (lacking := lacks_harbor(harness, draft.spec.sandbox.kind)):
        yield draft.finding(
            "T-harness",
            "error",
            key="rollout.harness",
            message=lacking,
            fix="--set rollout.harness=builtin, or a `sandbox.kind: harbor` block",
        )
    elif harness == TERMINUS and rollout.summary.kind != "none":
        yield draft.finding(
            "T-harness",
            "notice",
            key="rollout.summary.kind",
            message=f"{harness} summarises in its own way from trigger_tokens on: a summary may be as long as a reply, "
            "not as summary.max_new_tokens, and makes rows of its own",
            fix="nothing, or --set rollout.summary.kind=none: trials then end at the wall",
        )
    elif text_harness_path(harness) and rollout.summary.kind != "none":
        yield draft.finding(
            "T-harness",
            "warning",
            key="rollout.summary.kind",
            message=f"{harness} keeps its history itself: nothing is summarised, and its trials end at the wall",
            fix="--set rollout.summary.kind=none, or a harness that shortens its own history",
        )


def _cache(engine: EngineMemory) -> str:
    return (
        f"an engine's KV cache holds {engine.kv_tokens:,} tokens ({engine.static_gib - engine.weights_gib:.1f} GiB per "
        f"GPU at {engine.kv_bytes_per_token / 1024:.0f} KiB a token)"
    )


RULES = (engine_memory, other_harness)
