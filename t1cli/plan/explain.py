"""Where a value came from: the chain of layers of a spec key, or the formula of a figure in the plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

from t1cli.errors import BadInput
from t1cli.plan.diff import flatten
from t1cli.plan.plan import FORMAT_VERSION, Plan
from t1cli.spec.load import LoadedSpec, Origin

# Figures of the plan and how they are computed, with the spec keys they read.
FORMULAS: Mapping[str, str] = {
    "schedule.optimizer_steps": "rollout.num_rollouts · batch_size · samples_per_prompt // schedule.samples_per_step",
    "schedule.samples_per_step": "rollout.batch_size · samples_per_prompt // algorithm.steps_per_rollout (1 for ppo)",
    "schedule.epochs_seen": "rollout.num_rollouts · batch_size / tasks.card.num_tasks",
    "schedule.epochs_drawn": "rollout.num_rollouts · over_sampling_batch_size / tasks.card.num_tasks",
    "schedule.tasks_skipped_per_epoch": "tasks.card.num_tasks mod rollout.batch_size: slime floors rollouts per epoch",
    "schedule.sandbox_ramp_seconds": "pool.demand / sandbox.creation_per_second; 0 when unpaced",
    "schedule.routing_bytes_per_token": "MoE layers · experts per token · 4 bytes (slime's int32)",
    "schedule.routing_bytes_per_step": "schedule.routing_bytes_per_token · batch_size · samples_per_prompt · "
    "context_tokens: every sample at the wall",
    "schedule.step_seconds": "rollout.expected_seconds + expected_train_seconds under sync, else the larger",
    "schedule.gpu_hours": "booked GPUs · schedule.step_seconds · rollout.num_rollouts / 3600",
    "schedule.cost": "schedule.gpu_hours · hardware.price_per_gpu_hour",
    "pool.demand": "(rollout.over_sampling_batch_size or batch_size) · samples_per_prompt",
    "pool.capacity": "servers · sandbox.max_tasks · sandbox.max_runs_per_task, or sandbox.capacity",
    "pool.ratio": "pool.demand / pool.capacity",
    "pool.granted": "min(groups, servers · max_tasks) · min(samples_per_prompt, max_runs_per_task) under hash routing",
    "host.needed_gib": "the sum of host.terms",
    "disk.per_save_gib": "parameters · bytes per parameter of checkpoint.what · roles",
    "disk.total_gib": "disk.per_save_gib · (disk.saves_kept + 1 being written)",
    "disk.saves_kept": "checkpoint.retention.keep_latest + keep_best, at most the saves of the campaign",
}


@dataclass(frozen=True)
class Explained:
    """One value and its history, newest first."""

    key: str
    value: Any
    where: str
    replaced: tuple[Origin, ...] = ()
    """What earlier layers gave, newest first."""
    formula: str = ""
    """How a figure of the plan is computed, or why a value is gone; empty for a value of the spec."""


def explain(loaded: LoadedSpec, plan: Plan, key: str) -> tuple[Explained, ...]:
    """Every leaf at or below `key`, of the spec or else of the plan. BadInput with near names when there is none."""
    values = flatten(loaded.spec.model_dump(mode="json"))
    found = tuple(_of_spec(loaded, name, value) for name, value in values.items() if _below(name, key))
    found += tuple(
        _dropped(name, old) for name, old in loaded.dropped.items() if _below(name, key) and name not in values
    )
    figures = flatten({name: block for name, block in plan.to_json().items() if name != "findings"})
    found = found or tuple(
        Explained(name, value, "computed", formula=_formula(name))
        for name, value in figures.items()
        if _below(name, key)
    )
    if found:
        return found
    near = get_close_matches(key, [*_prefixes(values), *_prefixes(figures)], n=3)
    if re.fullmatch(r"[A-Z]\d{1,2}", key):
        raise BadInput(f"no value or figure `{key}`", hint=f"`t1 explain {key}` explains a failure mode")
    raise BadInput(
        f"no value or figure `{key}`",
        hint=f"did you mean {' or '.join(f'`{name}`' for name in near)}?"
        if near
        else "keys are dotted, as in the YAML; `t1 schema --markdown` lists them",
    )


def to_json(found: tuple[Explained, ...]) -> dict[str, Any]:
    """One JSON object with `format_version` first."""
    return {"format_version": FORMAT_VERSION, "explained": [asdict(item) for item in found]}


def _of_spec(loaded: LoadedSpec, key: str, value: Any) -> Explained:
    origin = loaded.origins.get(key)
    if origin is None:
        return Explained(key, value, loaded.where(key))
    return Explained(key, value, origin.where, tuple(reversed(origin.replaced)))


def _dropped(key: str, origin: Origin) -> Explained:
    gone = "gone: a later layer changed its block's `kind`"
    return Explained(key, origin.value, origin.where, tuple(reversed(origin.replaced)), gone)


def _formula(key: str) -> str:
    if key.startswith("memory.roles."):
        return "memory_model: the terms alive in the phase with the highest peak; they sum to peak_gib"
    return FORMULAS.get(key, "")


def _below(name: str, key: str) -> bool:
    return name == key or name.startswith(f"{key}.")


def _prefixes(flat: Mapping[str, Any]) -> set[str]:
    return {".".join(name.split(".")[:depth]) for name in flat for depth in range(1, name.count(".") + 2)}
