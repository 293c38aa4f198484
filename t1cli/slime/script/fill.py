"""What a spec needs and a script does not say: machines, blocks of terminal campaigns, and slime's own defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from t1cli.slime.arguments.read import Arguments
from t1cli.slime.arguments.silent import offloads_training
from t1cli.slime.script.known_models import preset_keys
from t1cli.slime.script.read_script import Submission

HARDWARE: Final = "hardware/h100"
_GPUS: Final = 8
_DEFAULT_CONTEXT: Final = 4096


def filled(
    keys: Mapping[str, Any], submission: Submission, arguments: Arguments, *, preset: str | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The spec as a tree, and what was assumed for it."""
    assumptions: list[str] = []
    values = dict(keys)
    _model(values, arguments, assumptions, preset)
    _machines(values, submission, arguments, assumptions)
    _training(values, arguments, assumptions)
    _rollout(values, submission, arguments, assumptions)
    _evaluation(values, arguments, assumptions)
    if preset is not None:
        known = preset_keys(preset)
        values = {key: value for key, value in values.items() if key not in known or known[key] != value}
    tree = _nested(values)
    _placeholder_blocks(tree, values)
    return tree, tuple(assumptions)


def _model(values: dict[str, Any], arguments: Arguments, assumptions: list[str], preset: str | None) -> None:
    path = arguments.text("hf_checkpoint")
    name = PurePosixPath(path.rstrip("/")).name or "model"
    values["model.name"] = name
    values["model.family"] = name.lower().partition("-")[0].replace(".", "_") or "unknown"
    block = "model.architecture."
    values.setdefault(f"{block}tie_word_embeddings", not arguments.has("untie_embeddings_and_output_weights"))
    if preset is not None:
        return
    for key, otherwise in (("vocab_size", 151936), ("num_attention_heads", 1), ("hidden_size", 1)):
        if f"{block}{key}" not in values:
            values[f"{block}{key}"] = otherwise
            assumptions.append(f"model.architecture.{key}: {otherwise} (the script does not say)")
    values.setdefault(f"{block}num_hidden_layers", 1)
    values.setdefault(f"{block}num_key_value_heads", values[f"{block}num_attention_heads"])
    values.setdefault(f"{block}head_dim", 128)
    if not values.get(f"{block}num_experts"):
        values.setdefault(f"{block}intermediate_size", 4 * values[f"{block}hidden_size"])
    if arguments.value("spec") and not values.get(f"{block}num_experts") and not arguments.on("multi_latent_attention"):
        assumptions.append("the model has its own layer specification (--spec): its memory is that of plain attention")


def _machines(values: dict[str, Any], submission: Submission, arguments: Arguments, assumptions: list[str]) -> None:
    per_node = arguments.whole("actor_num_gpus_per_node", _GPUS)
    nodes = arguments.whole("actor_num_nodes", 1)
    training = per_node * nodes
    colocated = arguments.on("colocate")
    rollout = training if colocated else arguments.whole("rollout_num_gpus")
    started = int(submission.gpus_per_node) if submission.gpus_per_node.isdigit() else 0
    size = values.get("hardware.gpus_per_node") or max(per_node, min(started, _GPUS) or _GPUS)
    total = training if colocated else training + rollout
    values["topology.train_nodes"] = nodes
    values["topology.rollout_gpus"] = rollout
    values.setdefault("topology.gpus_per_engine", 1)
    values["hardware.gpus_per_node"] = size
    values["hardware.num_nodes"] = max(nodes, math.ceil(total / size))
    assumptions.append(f"preset {HARDWARE}: scripts do not say what a GPU is")


def _training(values: dict[str, Any], arguments: Arguments, assumptions: list[str]) -> None:
    if "algorithm.actor_learning_rate" not in values:
        values["algorithm.actor_learning_rate"] = arguments.number("lr")
        assumptions.append(f"algorithm.actor_learning_rate: {arguments.value('lr')}, slime's default of --lr")
    values.setdefault("trainer.offload_train", offloads_training(arguments))
    values.setdefault("trainer.nccl_timeout_minutes", 10)
    values.setdefault("trainer.fp32_gradients", False)
    values.setdefault("trainer.max_tokens_per_gpu", _context(arguments) * arguments.whole("micro_batch_size", 1))
    if values.get("algorithm.kind") == "ppo":
        values.setdefault("algorithm.critic.learning_rate", arguments.number("lr", 1e-6))
        for key in ("estimator", "clip_high", "kl_loss_kind", "normalize_std", "loss", "steps_per_rollout"):
            values.pop(f"algorithm.{key}", None)
    if arguments.has("eps_clip_high") is False:
        values.pop("algorithm.clip_high", None)


def _context(arguments: Arguments) -> int:
    """The longest sample: the wall where there is one, else the longest prompt that is likely plus the reply."""
    wall = arguments.whole("rollout_max_context_len")
    if wall:
        return wall
    reply = arguments.whole("rollout_max_response_len")
    prompt = arguments.whole("rollout_max_prompt_len") or 1024
    return reply + prompt if reply else max(_DEFAULT_CONTEXT, arguments.whole("max_tokens_per_gpu"))


def _rollout(values: dict[str, Any], submission: Submission, arguments: Arguments, assumptions: list[str]) -> None:
    if submission.entry == "train_async.py":
        values.setdefault("rollout.pipeline", "one_step")
        values["rollout.max_staleness"] = 1
    else:
        values["rollout.pipeline"] = "sync"
        values.pop("algorithm.keep_old_actor", None)
        if arguments.text("rollout_function_path").endswith("generate_rollout_fully_async"):
            values["engine.prompts.rollout_function"] = arguments.text("rollout_function_path")
    values.setdefault("rollout.samples_per_prompt", 1)
    if "rollout.num_rollouts" not in values:
        values["rollout.num_rollouts"] = 1
        assumptions.append("rollout.num_rollouts: 1, because --num-epoch sets the length from the data")
    if "rollout.context_tokens" not in values:
        values["rollout.context_tokens"] = _context(arguments)
        assumptions.append(
            f"rollout.context_tokens: {_context(arguments)}, the longest sample that memory is planned for"
        )
    values.setdefault("rollout.max_new_tokens_per_turn", min(_context(arguments), values["rollout.context_tokens"]))
    values["rollout.max_turns"] = 1
    values["rollout.trial_wall_seconds"] = 3600.0
    values["rollout.observation_tokens"] = min(1024, values["rollout.context_tokens"] - 1)


def _evaluation(values: dict[str, Any], arguments: Arguments, assumptions: list[str]) -> None:
    mine = [key for key in values if key.startswith("evaluation.")]
    whole = "evaluation.path" in values and "evaluation.every_rollouts" in values
    if not whole:
        for key in mine:
            values.pop(key)
        return
    reply = values.setdefault("evaluation.max_new_tokens_per_turn", values["rollout.max_new_tokens_per_turn"])
    values["evaluation.context_tokens"] = max(reply + 1024, values["rollout.context_tokens"])
    values["evaluation.max_turns"] = 1
    values.setdefault("evaluation.repeats", 1)
    values["evaluation.num_tasks"] = 1
    assumptions.append("evaluation.num_tasks: 1, because the script does not say how large the set is")


def _placeholder_blocks(tree: dict[str, Any], values: Mapping[str, Any]) -> None:
    engine = tree.setdefault("engine", {})
    engine["kind"] = "slime"
    path = values.get("engine.prompts.path", "prompts")
    prompts = max(1, values["rollout.num_rollouts"] * values["rollout.batch_size"])
    card = {"name": PurePosixPath(str(path)).stem or "prompts", "num_tasks": prompts, "verifier": "binary"}
    tree["tasks"] = {"card": card, "path": str(path)}
    tree["reward"] = {"kind": "binary"}
    tree["sandbox"] = {"kind": "local"}


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *parents, last = key.split(".")
        block = tree
        for part in parents:
            block = block.setdefault(part, {})
        block[last] = value
    return tree
