"""What slime changes without asking, said when the changed value was given or the change matters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from t1cli.slime.arguments.megatron import size, world
from t1cli.slime.arguments.problem import Rule
from t1cli.slime.arguments.raises import evaluation_function
from t1cli.slime.arguments.read import Arguments
from t1cli.slime.arguments.silent import colocation_overwrites

CHANGED: Final = "T-change"
FILLED: Final = "T-filled"
"""Left out, and taken from another argument."""
_SWITCHED_ON: Final = (
    "use_distributed_optimizer",
    "sglang_enable_metrics",
    "sglang_enable_draft_weights_cpu_backup",
    "dist_ckpt_save_pre_mcore_014",
)
_SWITCHED_ON_LATER: Final = (
    "use_persistent_ckpt_worker",
    "ckpt_assume_constant_structure",
    "ckpt_fully_parallel_load",
)
"""By v0.3.1 too."""


def _given_and(a: Arguments, dest: str, value: object) -> bool:
    return a.has(dest) and a.value(dest) == value


def _position_embeddings(a: Arguments) -> bool:
    given, length = a.value("max_position_embeddings"), a.whole("seq_length", 4096)
    return a.has("max_position_embeddings") and given != length


def _padded_vocabulary(a: Arguments) -> int:
    """Megatron's padding of the vocabulary, where it is not given; 0 without one."""
    unit = max(1, a.whole("make_vocab_size_divisible_by", 128)) * size(a, "tensor_model")
    return 0 if a.whole("padded_vocab_size") else -(-a.whole("vocab_size") // unit) * unit


def _rewrites_the_layout(a: Arguments) -> bool:
    return a.on("debug_rollout_only") and (a.on("colocate") or world(a) != a.whole("rollout_num_gpus"))


def _filled(dest: str, source: str, when: Callable[[Arguments], bool]) -> Rule:
    flag, other = (f"--{name.replace('_', '-')}" for name in (dest, source))
    return Rule(
        FILLED, "notice", flag,
        lambda a: a.value(dest) is None and when(a),
        lambda a: f"{flag} is not given and becomes {other} {a.value(source)}", f"give {flag} if it should differ",
    )  # fmt: skip


def _switched_on(dest: str, since: str) -> Rule:
    flag = "--" + dest.replace("_", "-")
    return Rule(
        CHANGED, "notice", flag,
        lambda a: a.has(dest) and a.table.version >= since,
        f"slime turns {flag} on itself", "leave it out",
    )  # fmt: skip


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
        lambda a: colocation_overwrites(a)
        and a.has("rollout_num_gpus")
        and a.whole("rollout_num_gpus") != world(a),
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
        _rewrites_the_layout,
        "--debug-rollout-only rewrites the trainer's layout and turns colocation, both offloads and the memory margin "
        "off",
        "leave --colocate out, and give the trainer as many GPUs as the engines",
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
    *(_switched_on(dest, "0.3.0") for dest in _SWITCHED_ON),
    *(_switched_on(dest, "0.3.1") for dest in _SWITCHED_ON_LATER),
    Rule(
        CHANGED, "notice", "--balance-data",
        lambda a: a.on("balance_by_flops") and not a.on("balance_data"),
        "--balance-by-flops turns --balance-data on", "add --balance-data",
    ),
    Rule(
        CHANGED, "warning", "--release-train",
        lambda a: a.on("release_train")
        and a.on("colocate")
        and (_given_and(a, "offload_train", True) or _given_and(a, "offload_rollout", False)),
        "--release-train with --colocate turns --offload-train off and --offload-rollout on, whatever was given",
        "leave both out",
    ),
    Rule(
        CHANGED, "warning", "--save-interval",
        lambda a: a.on("release_train") and a.has("save_interval") and a.whole("save_interval") != 1,
        "--release-train saves after every rollout, whatever --save-interval says", "--save-interval 1",
    ),
    _filled("eps_clip_high", "eps_clip", lambda a: a.has("eps_clip")),
    _filled("eval_reward_key", "reward_key", lambda a: bool(a.text("reward_key")) and bool(evaluation_function(a))),
    _filled(
        "eval_function_path", "rollout_function_path",
        lambda a: a.has("rollout_function_path") and bool(evaluation_function(a)),
    ),
    _filled(
        "over_sampling_batch_size", "rollout_batch_size", lambda a: bool(a.text("dynamic_sampling_filter_path")),
    ),
    Rule(
        FILLED, "notice", "--padded-vocab-size",
        lambda a: a.whole("vocab_size") > 0 and _padded_vocabulary(a) not in (0, a.whole("vocab_size")),
        lambda a: f"--vocab-size {a.value('vocab_size')} is padded to {_padded_vocabulary(a)}, a multiple that tensor "
        "parallelism can split",
        "nothing to do",
    ),
    Rule(
        CHANGED, "warning", "--fp16",
        lambda a: a.has("fp16") and a.on("fp16"),
        "--fp16 turns bf16 off", "leave --fp16 out",
    ),
)  # fmt: skip
"""One row per value."""
