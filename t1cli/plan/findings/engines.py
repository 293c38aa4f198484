"""Inference engines whose weights do not fit their share, or whose KV cache is shorter than one trial."""

from __future__ import annotations

from collections.abc import Iterator

from t1cli.plan.draft import Draft
from t1cli.plan.inference import EngineMemory, plan_engine
from t1cli.plan.plan import Finding
from t1cli.spec.harnesses import BUILTIN, WRITTEN, names_a_harness, near_names, text_harness_path

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
    """T-harness: what the spec names is not what runs, or not all of the spec is kept by it."""
    rollout, harness = draft.spec.rollout, draft.spec.rollout.harness
    if not names_a_harness(harness):
        yield draft.finding(
            "T-harness",
            "error",
            key="rollout.harness",
            message=f"`{harness}` names no agent loop",
            fix=near_names(harness) or WRITTEN,
        )
    elif text_harness_path(harness) and rollout.summary.kind != "none":
        yield draft.finding(
            "T-harness",
            "warning",
            key="rollout.summary.kind",
            message=f"{harness} keeps its history itself: nothing is summarised, and its trials end at the wall",
            fix="--set rollout.summary.kind=none, or a harness that shortens its own history",
        )
    elif draft.on_slime and harness != BUILTIN and text_harness_path(harness) is None:
        yield draft.finding(
            "T-harness",
            "warning",
            key="rollout.harness",
            message=f"trials run t1's built-in agent loop, not {harness}: same tools and budgets, other prompts, so "
            f"figures measured with {harness} do not carry over",
            fix="--set rollout.harness=builtin says what runs; `package.module:function` runs a harness of your own",
        )


def _cache(engine: EngineMemory) -> str:
    return (
        f"an engine's KV cache holds {engine.kv_tokens:,} tokens ({engine.static_gib - engine.weights_gib:.1f} GiB per "
        f"GPU at {engine.kv_bytes_per_token / 1024:.0f} KiB a token)"
    )


RULES = (engine_memory, other_harness)
