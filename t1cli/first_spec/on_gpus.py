"""A campaign on GPUs: how many train and how many generate, and the first layout of the search that plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from memory_model.search import Progress
from memory_model.units import GIB
from t1cli.errors import Refused
from t1cli.first_spec.answers import NODE_GPUS, Answers
from t1cli.first_spec.blocks import Draft, reward_block, reward_notes, sandbox_block, tasks_block
from t1cli.first_spec.own_tasks import OwnTasks
from t1cli.plan.build import build_plan
from t1cli.plan.search import FoundLayout, SearchAnswer, search_layouts
from t1cli.spec.load import LoadedSpec

Load = Callable[[Draft], LoadedSpec]

# Weights of an engine beside its cache: above this share of a GPU it is spread over more.
_WEIGHTS_SHARE: Final = 0.5
_TRIED: Final = 40
"""Layouts that are planned in full, best first, before the GPUs are split another way."""
_BLANK: Final = "T-blank"
_BATCH: Final = {"grpo": (16, 8), "ppo": (128, 1)}


def gpu_draft(answers: Answers, tasks: OwnTasks, output: Path, load: Load, progress: Progress | None = None) -> Draft:
    """The first split of the GPUs, and in it the first layout, that the plan accepts; else one whose memory fits.

    Raises Refused when none does.
    """
    misses: list[tuple[str, SearchAnswer]] = []
    spare: Draft | None = None
    for split, topology in _splits(answers.gpus):
        draft = _draft(answers, tasks, output, topology)
        draft = _with_engines(draft, load, topology)
        answer = search_layouts(load(draft), progress)
        fitting = [_laid_out(draft, layout) for layout in answer.layouts if layout.verdict != "OOM"][:_TRIED]
        planned = next((found for found in fitting if not _errors(load(found))), None)
        if planned is not None:
            return planned
        spare = spare or next(iter(fitting), None)
        misses.append((split, answer))
    if spare is None:
        raise _nothing_fits(answers, misses)
    return spare


def _errors(loaded: LoadedSpec) -> bool:
    """Whether the plan refuses it for more than a path that nobody has given yet."""
    return any(finding.severity == "error" and finding.id != _BLANK for finding in build_plan(loaded).findings)


def _splits(gpus: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Half trains and half generates; else all of them do both in turn."""
    nodes = max(1, gpus // NODE_GPUS)
    if nodes > 1:
        train = nodes // 2
        yield "half and half", {"train_nodes": train, "rollout_gpus": NODE_GPUS * (nodes - train)}
    elif gpus > 1:
        train = gpus // 2
        yield "half and half", {"train_nodes": 1, "train_gpus_per_node": train, "rollout_gpus": gpus - train}
    yield "shared by turns", {"train_nodes": nodes, "rollout_gpus": gpus, "colocated": True}


def _draft(answers: Answers, tasks: OwnTasks, output: Path, topology: Mapping[str, Any]) -> Draft:
    ppo = answers.algorithm == "ppo"
    algorithms = ("algorithm/ppo-t1", "algorithm/ppo-t1-cold-critic") if ppo else ("algorithm/grpo-qwen3",)
    dense = "ctrf-count-20" if ppo else "pass-ratio-signed"
    reward = dense if tasks.counts_tests else "binary"
    batch, samples = _BATCH[answers.algorithm]
    nodes = max(1, answers.gpus // NODE_GPUS)
    weights = answers.weights or "<HF_CHECKPOINT>"
    blocks: dict[str, Any] = {
        "hardware": {"num_nodes": nodes, "gpus_per_node": min(answers.gpus, NODE_GPUS)},
        "model": {"checkpoints": {"hf": weights, "torch_dist": f"{weights.rstrip('/')}_torch_dist"}},
        "topology": {**topology, "gpus_per_engine": 1},
        "trainer": {"precision": "bf16", "max_tokens_per_gpu": 16384, "offload_train": bool(topology.get("colocated"))},
        "rollout": {
            "pipeline": "sync" if topology.get("colocated") else "one_step",
            "max_staleness": 0 if topology.get("colocated") else 1,
            "num_rollouts": 200,
            "batch_size": batch,
            "samples_per_prompt": samples,
        },
        "engine": {"kind": "slime"},
        "tasks": tasks_block(answers, tasks, output),
        "sandbox": sandbox_block(answers, at_once=batch * samples),
        "checkpoint": {"retention": {"metric": "terminal/accuracy"}},
    }
    if ppo:
        blocks |= reward_block(tasks)
        blocks["trainer"]["offload_train"] = True
    presets = (f"model/{answers.model}", f"hardware/{answers.gpu_kind}", *algorithms, "rollout/qwen3-terminal")
    about = f"{answers.model} on {answers.gpus} GPUs ({answers.gpu_kind}), {tasks.count} tasks."
    notes = reward_notes(tasks) if ppo else {}
    return Draft(answers.name, about, (*presets, f"reward/{reward}"), blocks, notes)


def _with_engines(draft: Draft, load: Load, topology: Mapping[str, Any]) -> Draft:
    """Engines over as few GPUs as hold the weights beside a cache."""
    loaded = load(draft)
    weights_gib = build_plan(loaded).parameters.total * 2 / GIB
    room = _WEIGHTS_SHARE * loaded.spec.hardware.usable_gib
    sizes = [size for size in (1, 2, 4, 8) if topology["rollout_gpus"] % size == 0]
    size = next((size for size in sizes if weights_gib / size <= room), sizes[-1])
    return draft.under([f"topology.gpus_per_engine={size}"])


def _laid_out(draft: Draft, layout: FoundLayout) -> Draft:
    found = draft.under(layout.settings)
    about = f"{found.about[:-1]}; the best of the layouts that fit, {layout.peak_gib:.1f} GiB at its peak."
    return replace(found, about=about)


def _nothing_fits(answers: Answers, misses: list[tuple[str, SearchAnswer]]) -> Refused:
    split, answer = misses[0]
    nearest = answer.layouts[0].why_not if answer.layouts else "no layout of these GPUs exists"
    return Refused(
        f"no layout of {answers.model} fits on {answers.gpus} GPUs of {answer.usable_gib:g} GiB; "
        f"nearest ({split}): {nearest}",
        where="--gpus",
        hint=f"--gpus {max(NODE_GPUS, answers.gpus * 2)}, a larger --gpu-kind, or a smaller --model",
    )
