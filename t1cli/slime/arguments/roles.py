"""The role file of `--megatron-config-path`: slime reads it after the engines have started and validates nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from t1cli.slime.arguments.problem import Problem
from t1cli.slime.arguments.read import Arguments
from t1cli.spec.role_directories import share_files

FLAG: Final = "--megatron-config-path"
_ROLES: Final = ("actor", "critic")
_IGNORED: Final = ("num_nodes", "num_gpus_per_node")
_LAYOUT: Final = (
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "context_parallel_size",
    "expert_model_parallel_size",
    "expert_tensor_parallel_size",
)


def role_problems(arguments: Arguments, role_file: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with a role file's content, with the arguments it overrides."""
    entries = role_file.get("megatron")
    if not isinstance(entries, list):
        yield _error("T-roles", "the role file needs a top-level list `megatron` (AssertionError at start)")
        return
    overrides: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        role = entry.get("role") if isinstance(entry, Mapping) else None
        if role not in _ROLES:
            yield _error("T-roles", f"`role: {role}` is neither actor nor critic; slime never reads that entry")
        elif role in overrides:
            yield _error("T-roles", f"two entries of the {role} (AssertionError at start)")
        else:
            overrides[role] = entry.get("overrides") or entry.get("args") or {}
    for role, values in overrides.items():
        yield from _override_problems(arguments, role, values)
    if arguments.text("advantage_estimator") == "ppo":
        yield from _directory_problems(arguments, overrides)


def _override_problems(arguments: Arguments, role: str, values: Mapping[str, Any]) -> Iterator[Problem]:
    for key, value in values.items():
        if key in _IGNORED:
            yield Problem("T-roles", "warning", FLAG, f"slime ignores {role}.{key}", "leave it out")
        elif arguments.table.by_dest(key) is None and key not in _SET_IN_ROLES:
            near = arguments.table.near("--" + key.replace("_", "-"))
            hint = (
                f"did you mean `{near.removeprefix('--').replace('-', '_')}`?" if near else "keys are attribute names"
            )
            yield Problem("T-roles", "error", FLAG, f"{role}.{key} is no attribute of slime's arguments", hint)
        elif key in _LAYOUT and value != arguments.value(key):
            yield _error("T-roles", f"{role}.{key} differs from the common layout: both roles share every GPU")


# Attributes without a flag of the same name that role overrides may set (slime_validate_args sets them).
_SET_IN_ROLES: Final = ("disable_param_buffers_cpu_backup", "disable_grad_buffers_cpu_backup")


def _directory_problems(arguments: Arguments, overrides: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    base = arguments.text("save")
    if not base:
        return
    actor = str(overrides.get("actor", {}).get("save", base))
    critic = str(overrides.get("critic", {}).get("save", base))
    if share_files(actor, critic):
        message = f"the critic saves to {critic}, the actor to {actor}: the critic saves last and overwrites the actor"
        yield _error("C2", message, "give the critic a `save` outside the actor's directory")


def _error(id_: str, message: str, fix: str = "correct the role file") -> Problem:
    return Problem(id_, "error", FLAG, message, fix)
