"""What slime changes without asking, said when the changed value was given or the change matters."""

from __future__ import annotations

from typing import Final

from t1cli.slime.arguments.megatron import size, world
from t1cli.slime.arguments.problem import Rule
from t1cli.slime.arguments.read import Arguments

CHANGED: Final = "T-change"


def _given_and(a: Arguments, dest: str, value: object) -> bool:
    return a.has(dest) and a.value(dest) == value


def _position_embeddings(a: Arguments) -> bool:
    given, length = a.value("max_position_embeddings"), a.whole("seq_length", 4096)
    return a.has("max_position_embeddings") and given != length


def _fresh(a: Arguments) -> bool:
    """Whether no load directory is named, so that the start is certainly a fresh one."""
    return not a.text("load")


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        CHANGED, "warning", "--no-offload-train",
        lambda a: a.text("advantage_estimator") == "ppo" and _given_and(a, "offload_train", False),
        "PPO forces offload_train on, whatever --no-offload-train says: actor and critic share their GPUs",
        "leave --no-offload-train out",
    ),
    Rule(
        CHANGED, "warning", "--offload",
        lambda a: a.on("offload")
        and (_given_and(a, "offload_train", False) or _given_and(a, "offload_rollout", False)),
        "--offload turns both offloads on and overrules --no-offload-*", "leave --offload out",
    ),
    Rule(
        CHANGED, "warning", "--max-position-embeddings",
        _position_embeddings,
        lambda a: f"--max-position-embeddings becomes {a.whole('seq_length', 4096)}, the sequence length",
        "leave it out",
    ),
    Rule(
        CHANGED, "warning", "--moe-token-dispatcher-type",
        lambda a: _given_and(a, "moe_token_dispatcher_type", "allgather"),
        "the allgather dispatcher becomes alltoall: it cannot take variable sequence lengths",
        "--moe-token-dispatcher-type alltoall",
    ),
    Rule(
        CHANGED, "warning", "--rollout-num-gpus",
        lambda a: a.on("colocate") and a.has("rollout_num_gpus") and a.whole("rollout_num_gpus") != world(a),
        lambda a: f"--colocate overwrites --rollout-num-gpus {a.value('rollout_num_gpus')} with {world(a)}",
        "leave --rollout-num-gpus out",
    ),
    Rule(
        CHANGED, "warning", "--n-samples-per-prompt",
        lambda a: a.whole("n_samples_per_prompt", 1) == 1
        and a.text("advantage_estimator") in ("grpo", "gspo", "cispo")
        and not a.on("disable_compute_advantages_and_returns")
        and a.text("loss_type") == "policy_loss"
        and not a.text("custom_advantage_function_path"),
        "with one sample per prompt slime turns the group's standard-deviation division off; each sample is its own "
        "baseline",
        "at least 2 samples per prompt",
    ),
    Rule(
        CHANGED, "warning", "--num-epoch",
        lambda a: a.value("num_epoch") is not None and a.value("num_rollout") is not None,
        "--num-epoch is ignored because --num-rollout is given", "keep one of them",
    ),
    Rule(
        CHANGED, "warning", "--save-debug-rollout-data",
        lambda a: bool(a.text("dump_details"))
        and (bool(a.text("save_debug_rollout_data")) or bool(a.text("save_debug_train_data"))),
        "--dump-details replaces both debug-dump templates", "leave the templates out",
    ),
    Rule(
        CHANGED, "notice", "--sequence-parallel",
        lambda a: a.on("sequence_parallel") and size(a, "tensor_model") == 1,
        "--sequence-parallel is off with tensor parallel size 1", "leave it out",
    ),
    Rule(
        CHANGED, "warning", "--debug-rollout-only",
        lambda a: a.on("debug_rollout_only") and a.on("colocate"),
        "--debug-rollout-only rewrites the trainer's layout and turns colocation and both offloads off",
        "leave --colocate out",
    ),
    Rule(
        CHANGED, "warning", "--eval-prompt-data",
        lambda a: len(a.many("eval_prompt_data")) == 1,
        "a lone evaluation path is named `aime`", "--eval-prompt-data NAME PATH",
    ),
    Rule(
        CHANGED, "warning", "--start-rollout-id",
        lambda a: a.value("start_rollout_id") is not None and _fresh(a),
        "without a checkpoint to load slime sets the start to rollout 0, whatever --start-rollout-id says",
        "give --load, or leave it out",
    ),
    Rule(
        CHANGED, "warning", "--tokenizer-type",
        lambda a: a.has("tokenizer_type") and not a.has("tokenizer_model"),
        "the tokenizer is taken from --hf-checkpoint because --tokenizer-model is not given", "leave it out",
    ),
    Rule(
        CHANGED, "notice", "--use-routing-replay",
        lambda a: a.on("use_rollout_routing_replay") and a.on("use_routing_replay"),
        "--use-rollout-routing-replay implies --use-routing-replay", "leave the latter out",
    ),
    Rule(
        CHANGED, "notice", "--custom-config-path",
        lambda a: bool(a.text("custom_config_path")),
        "keys of --custom-config-path overwrite arguments after slime's own checks", "nothing to do",
    ),
    Rule(
        CHANGED, "warning", "--load-debug-rollout-data",
        lambda a: a.has("load_debug_rollout_data") and not a.on("debug_train_only"),
        "--load-debug-rollout-data implies --debug-train-only: no engine starts", "nothing to do",
    ),
    *(
        Rule(
            CHANGED, "notice", "--" + dest.replace("_", "-"),
            lambda a, dest=dest: a.has(dest),  # type: ignore[misc]
            f"slime turns --{dest.replace('_', '-')} on itself", "leave it out",
        )
        for dest in ("use_distributed_optimizer", "sglang_enable_metrics", "sglang_enable_draft_weights_cpu_backup")
    ),
    Rule(
        CHANGED, "warning", "--fp16",
        lambda a: a.has("fp16") and a.on("fp16"),
        "--fp16 turns bf16 off", "leave --fp16 out",
    ),
)  # fmt: skip
"""One row per value."""
