"""model: files of the first weights on every node, against the preset that the plan was made with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory_model.units import GIB
from t1cli.preflight.chat_template import relation_of
from t1cli.preflight.check import Check, Context, Saw, failed, passed, skipped, warned
from t1cli.preflight.every_node import EveryNode
from t1cli.preflight.fleet import Probe
from t1cli.spec.experiment import ExperimentSpec

ALIASES: Mapping[str, tuple[str, ...]] = {
    "num_experts": ("num_experts", "num_local_experts", "n_routed_experts"),
    "num_experts_per_tok": ("num_experts_per_tok", "num_experts_per_token", "moe_topk"),
}
"""Names of one number in different families' config.json."""
COMPARED = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "intermediate_size",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "num_experts",
    "num_experts_per_tok",
    "tie_word_embeddings",
    "rms_norm_eps",
    "rope_theta",
)
"""All that slime asserts before it trains (v0.3.0, `megatron_utils/arguments.py: _hf_validate_args`), and more."""
_HF = "t1cli.preflight.probes.model_files:hugging_face"
_CHATS = "t1cli.preflight.probes.model_files:chats"
_TORCH_DIST = "t1cli.preflight.probes.model_files:torch_dist"


def config(context: Context, found: Any) -> Saw:
    """config.json of the Hugging Face directory against the preset: the plan's memory rests on these numbers."""
    wanted = f"the shape of {context.spec.model.name}"
    if not found["exists"]:
        return failed(
            f"no directory {context.spec.model.checkpoints.hf}",
            wanted,
            "correct model.checkpoints.hf, or put it on every node",
        )
    if found["config"] is None:
        return failed("no readable config.json", wanted, "download the whole checkpoint")
    if found["weights_missing"]:
        missing = found["weights_missing"]
        return failed(
            f"{len(missing)} weight files missing, first {missing[0]}", wanted, "download the whole checkpoint"
        )
    different = differences(expected(context.spec), found["config"])
    if different:
        told = ", ".join(f"{name} is {theirs}, the preset says {ours}" for name, (theirs, ours) in different.items())
        return failed(told, wanted, "choose the preset of this model, or the checkpoint of this preset")
    return passed(f"config.json agrees in {len(COMPARED)} numbers", wanted)


def expected(spec: ExperimentSpec) -> dict[str, Any]:
    """The preset's numbers by their names in config.json; under slime those that Megatron is given beside the shape."""
    numbers = spec.model.architecture.model_dump()
    if numbers["num_experts"] and not numbers["first_k_dense"]:
        del numbers["intermediate_size"]  # no layer is dense
    if spec.engine.kind == "slime":
        numbers |= {"rms_norm_eps": spec.model.megatron.norm_epsilon, "rope_theta": spec.model.megatron.rotary_base}
    return numbers


def differences(ours: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Numbers that config.json has and that differ from the preset's: theirs and ours."""
    text = config.get("text_config")
    merged = {**config, **text} if isinstance(text, dict) else config
    rope = merged.get("rope_parameters")
    merged = {**merged, **rope} if isinstance(rope, dict) else merged
    found = {}
    for name in COMPARED:
        theirs = next((merged[alias] for alias in ALIASES.get(name, (name,)) if merged.get(alias) is not None), None)
        if theirs is not None and name in ours and theirs != ours[name]:
            found[name] = (theirs, ours[name])
    return found


def tokenizer(context: Context, found: Any) -> Saw:
    """Tokenizer and chat template, and whether later prompts continue earlier ones: one row a trial, or several."""
    wanted = "a tokenizer and a chat template under which history is only appended to"
    if not found["exists"] or not found["tokenizer"]:
        return failed("no tokenizer files", wanted, "download the whole checkpoint")
    if not found["template"]:
        return failed(
            "no chat template, so no prompt can be rendered", wanted, "put chat_template.jinja of the chat model there"
        )
    if found["appended"]["appends"]:
        said = f"relation strict: turns are appended as {found['appended']['appends']} frames them"
        return passed(f"{said} (template {found['template_digest']})", wanted)
    relation, why = relation_of(found["template"])
    said = f"relation {relation}: {why} (template {found['template_digest']})"
    if relation in ("strict", "normalized"):
        return passed(said, wanted)
    fix = "trials are split at such turns and their rows trained apart; an append-only template keeps one row a trial"
    return warned(f"{said}; {found['appended']['why']}", wanted, fix)


def torch_dist(context: Context, found: Any) -> Saw:
    """The converted weights that trainers load: the tracker's iteration, its metadata and every shard."""
    return _judge_torch_dist(
        found,
        "model.checkpoints.torch_dist",
        f"`{context.again('checkpoint convert')}`, or slime's tools/convert_hf_to_torch_dist.py",
    )


def warm_critic(context: Context, found: Any) -> Saw:
    """The finished critic that this campaign's critic starts from."""
    return _judge_torch_dist(
        found, "model.checkpoints.warm_critic", "name a finished critic's directory, or null for a cold start"
    )


def _judge_torch_dist(found: Any, key: str, fix: str) -> Saw:
    wanted = "a complete torch_dist checkpoint"
    if not found["exists"]:
        return failed(f"the directory of {key} is not there", wanted, fix)
    if found["missing"] or found["empty"]:
        lacking = [*found["missing"], *(f"{name} is empty" for name in found["empty"][:3])]
        return failed(f"{found['directory']}: {', '.join(lacking)}", wanted, fix)
    size = found["bytes"] / GIB
    return passed(f"{found['directory']}, {size:.1f} GiB", wanted)


def _hugging_face(context: Context) -> Probe | Saw:
    path = context.spec.model.checkpoints.hf
    if path is None:
        return skipped("model.checkpoints.hf is null")
    return Probe(_HF, {"path": path})


def _chats(context: Context) -> Probe | Saw:
    model = context.spec.model
    if model.checkpoints.hf is None:
        return skipped("model.checkpoints.hf is null")
    thinking = context.spec.rollout.thinking == "on"
    return Probe(_CHATS, {"path": model.checkpoints.hf, "family": model.family, "thinking": thinking})


def _torch_dist(context: Context) -> Probe | Saw:
    path = context.spec.model.checkpoints.torch_dist
    return skipped("model.checkpoints.torch_dist is null") if path is None else Probe(_TORCH_DIST, {"path": path})


def _warm_critic(context: Context) -> Probe | Saw:
    path = context.spec.model.checkpoints.warm_critic
    if context.spec.algorithm.kind != "ppo" or path is None:
        return skipped("the critic starts cold")
    if not context.on_slime:
        return skipped("the embedded engine reads its own critic when it starts")
    return Probe(_TORCH_DIST, {"path": path})


CHECKS = (
    Check("model.config", ("C7",), EveryNode(_hugging_face, config)),
    Check("model.tokenizer", ("F1",), EveryNode(_chats, tokenizer), limit_seconds=60.0),
    Check("model.torch_dist", (), EveryNode(_torch_dist, torch_dist)),
    Check("model.warm_critic", ("C1", "C2"), EveryNode(_warm_critic, warm_critic)),
)
