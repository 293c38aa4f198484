"""What slime validates nowhere though it fails, trains something else or loses work later."""

from __future__ import annotations

import re
from typing import Final

from t1cli.slime.arguments.megatron import model_parallel, size, world
from t1cli.slime.arguments.problem import Rule, Severity
from t1cli.slime.arguments.raises import (
    FULLY_ASYNC_FUNCTION,
    OWN_FULLY_ASYNC_FUNCTION,
    STOCK_FUNCTION,
    evaluation_function,
    external_engines,
    samples_per_rollout,
    trains_only,
)
from t1cli.slime.arguments.read import Arguments

NO_EFFECT: Final = "T-noop"
_ALLOCATOR: Final = "PYTORCH_CUDA_ALLOC_CONF"


def offloads_training(a: Arguments) -> bool:
    """Whether torch_memory_saver is put into the trainers."""
    if a.text("advantage_estimator") == "ppo" or a.on("offload"):
        return True
    return a.on("offload_train") if a.has("offload_train") else a.on("colocate") and not a.on("release_train")


def data_parallel(a: Arguments) -> int:
    """Data-parallel size, 0 when the axes do not fit."""
    return world(a) // model_parallel(a)


def global_batch(a: Arguments) -> int:
    """Samples of one optimizer step; 0 when it is left to Megatron."""
    steps = a.whole("num_steps_per_rollout")
    return samples_per_rollout(a) // steps if steps else a.whole("global_batch_size")


def _ppo(a: Arguments) -> bool:
    return a.text("advantage_estimator") == "ppo"


def _raw(a: Arguments) -> bool:
    return a.text("megatron_to_hf_mode") != "bridge"


def _static_batch_does_not_split(a: Arguments) -> bool:
    unit = data_parallel(a) * max(1, a.whole("micro_batch_size", 1))
    return not a.on("use_dynamic_batch_size") and unit > 0 and global_batch(a) % unit != 0


def colocation_overwrites(a: Arguments) -> bool:
    """Whether `--colocate` replaces a `--rollout-num-gpus` that was given; v0.3.1 lets it stand."""
    return a.on("colocate") and a.table.version == "0.3.0"


def engine_gpus(a: Arguments) -> int:
    """GPUs of all engines; 0 where nothing says how many."""
    if a.on("colocate") and (colocation_overwrites(a) or a.value("rollout_num_gpus") is None):
        return world(a)
    return a.whole("rollout_num_gpus")


def _engines_share_gpus(a: Arguments) -> bool:
    per_engine = max(1, a.whole("rollout_num_gpus_per_engine", 1))
    gpus = engine_gpus(a)
    return (
        not trains_only(a)
        and not external_engines(a)
        and gpus > 0
        and gpus % per_engine != 0
        and not a.text("sglang_config")
    )


def _evaluates_with_fully_async(a: Arguments) -> bool:
    return evaluation_function(a) == FULLY_ASYNC_FUNCTION


def _plays_trials(a: Arguments) -> bool:
    functions = (a.text("rollout_function_path"), a.text("custom_generate_function_path"))
    return any(name.startswith("t1cli.plugin.") for name in functions)


def _fully_async(a: Arguments) -> bool:
    return a.text("rollout_function_path") in (FULLY_ASYNC_FUNCTION, OWN_FULLY_ASYNC_FUNCTION)


# A filter that is ignored trains on other groups than was asked for; the rest costs nothing.
_NOT_FULLY_ASYNC: Final[tuple[tuple[Severity, str, str], ...]] = (
    ("error", "--dynamic-sampling-filter-path", "dynamic_sampling_filter_path"),
    ("error", "--rollout-sample-filter-path", "rollout_sample_filter_path"),
    ("warning", "--over-sampling-batch-size", "over_sampling_batch_size"),
    ("warning", "--partial-rollout", "partial_rollout"),
)


def odd_paths(a: Arguments) -> tuple[str, ...]:
    """Arguments whose function could not be loaded: slime splits `module.name` at the last dot and knows no colon."""
    found = []
    for given in a.given:
        dest = given.argument.dest if given.argument is not None else ""
        names_a_function = dest.endswith("_path") and given.argument is not None and given.argument.origin == "slime"
        if names_a_function and dest not in _FILES:
            found += [given.flag for value in given.values if "<" not in value and not _DOTTED.fullmatch(value)]
    return tuple(dict.fromkeys(found))


_FILES: Final = ("custom_config_path", "megatron_config_path")
_DOTTED: Final = re.compile(r"[^\s:/.]+(\.[^\s:/.]+)+")


def _without(dest: str, *needs: str) -> Rule:
    """An argument that does nothing unless one of the named switches is on; none of a version without them."""
    flag = "--" + dest.replace("_", "-")
    switches = " or ".join("--" + need.replace("_", "-") for need in needs)
    return Rule(
        NO_EFFECT, "warning", flag,
        lambda a: a.has(dest)
        and a.value(dest) not in (0, None, False)
        and any(a.table.by_dest(need) is not None for need in needs)
        and not any(a.on(need) for need in needs),
        f"{flag} has no effect without {switches}", f"add {switches}, or leave it out",
    )  # fmt: skip


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "T-batch", "error", "--global-batch-size",
        lambda a: a.value("global_batch_size") is None and not a.whole("num_steps_per_rollout"),
        lambda a: "neither --global-batch-size nor --num-steps-per-rollout: Megatron takes micro batch x data-parallel "
        f"size = {max(1, a.whole('micro_batch_size', 1)) * data_parallel(a)}, an optimizer step for so few samples",
        "give --global-batch-size",
    ),
    Rule(
        "T-drop", "warning", "--global-batch-size",
        lambda a: 0 < global_batch(a) <= samples_per_rollout(a) and samples_per_rollout(a) % global_batch(a) != 0,
        lambda a: f"{samples_per_rollout(a) % global_batch(a)} of {samples_per_rollout(a)} samples of each rollout "
        "fill no step and are dropped",
        "a divisor of the rollout's samples",
    ),
    Rule(
        "T-ranks", "error", "--global-batch-size",
        lambda a: 0 < global_batch(a) < data_parallel(a),
        lambda a: f"a step of {global_batch(a)} samples over {data_parallel(a)} data-parallel ranks leaves ranks empty",
        "at least one sample per rank",
    ),
    Rule(
        "T-batch", "error", "--micro-batch-size",
        _static_batch_does_not_split,
        lambda a: f"{global_batch(a)} samples a step are not a multiple of {data_parallel(a)} data-parallel ranks x "
        f"micro batch {max(1, a.whole('micro_batch_size', 1))}",
        "--use-dynamic-batch-size with --max-tokens-per-gpu",
    ),
    Rule(
        "T-gpus", "error", "--rollout-num-gpus",
        lambda a: a.value("rollout_num_gpus") is None
        and not a.on("colocate")
        and not trains_only(a)
        and not (external_engines(a) and a.table.version != "0.3.0"),
        "--rollout-num-gpus is not given and nothing is colocated: a TypeError when GPUs are summed",
        "give --rollout-num-gpus, or --colocate",
    ),
    Rule(
        "T-gpus", "error", "--rollout-num-gpus-per-engine",
        _engines_share_gpus,
        "the rollout GPUs are not a multiple of the GPUs per engine", "change --rollout-num-gpus-per-engine",
    ),
    Rule(
        "T-load", "error", "--ref-load",
        lambda a: _raw(a) and not a.text("ref_load") and not a.text("load") and not a.on("debug_rollout_only"),
        "neither --load nor --ref-load: the trainers have no weights to start from", "give --ref-load",
    ),
    Rule(
        "T-load", "error", "--hf-checkpoint",
        lambda a: not a.text("hf_checkpoint"),
        "--hf-checkpoint is not given: no tokenizer, no engine weights", "give --hf-checkpoint",
    ),
    Rule(
        "C2", "error", "--megatron-config-path",
        lambda a: _ppo(a) and bool(a.text("save")) and not a.text("megatron_config_path"),
        "PPO without a role file: the critic saves last, into the actor's directory",
        "give --megatron-config-path with a `save` of its own for the critic",
    ),
    Rule(
        "C9", "error", "--keep-old-actor",
        lambda a: a.asynchronous and _ppo(a) and not a.on("keep_old_actor"),
        "train_async.py without --keep-old-actor: old log-probs come from weights one update newer than the sampler's",
        "add --keep-old-actor and --update-weights-interval 1",
    ),
    Rule(
        "C9", "warning", "--keep-old-actor",
        lambda a: a.asynchronous
        and not _ppo(a)
        and a.text("loss_type") != "sft_loss"
        and not a.on("keep_old_actor")
        and not a.on("use_rollout_logprobs"),
        "train_async.py without --keep-old-actor: old log-probs come from weights one update newer than the sampler's",
        "add --keep-old-actor and --update-weights-interval 1",
    ),
    Rule(
        "C9", "warning", "--update-weights-interval",
        lambda a: a.on("keep_old_actor") and a.whole("update_weights_interval", 1) > 1,
        "the kept actor rotates at the weight push: with an interval above 1 several rollouts share one snapshot",
        "--update-weights-interval 1",
    ),
    Rule(
        "M9", "error", _ALLOCATOR,
        lambda a: offloads_training(a)
        and "expandable_segments:true" in a.environment.get(_ALLOCATOR, "").replace(" ", "").lower(),
        "expandable segments with offloaded training: torch_memory_saver raises in every trainer",
        f"leave {_ALLOCATOR} out",
    ),
    Rule(
        "T-eval", "error", "--eval-function-path",
        _evaluates_with_fully_async,
        "the fully-async rollout function raises when it is asked to evaluate",
        f"--eval-function-path {STOCK_FUNCTION}",
    ),
    Rule(
        "T-nucleus", "error", "--rollout-top-p",
        lambda a: a.number("rollout_top_p", 1.0) != 1 and a.table.version != "0.3.0" and _plays_trials(a),
        "slime replays nucleus sampling at this version and asserts which tokens each one was drawn from; trials carry "
        "no such record",
        "--rollout-top-p 1.0",
    ),
    Rule(
        "T-path", "error", "--rollout-function-path",
        lambda a: bool(odd_paths(a)),
        lambda a: f"{', '.join(odd_paths(a))}: a function is named as module.function, with dots alone; slime loads it "
        "late, in the process that needs it",
        "dots instead of slashes and colons, without .py",
    ),
    Rule(
        "T-clip", "warning", "--eps-clip",
        lambda a: a.text("advantage_estimator") == "cispo" and a.number("eps_clip") < 1,
        lambda a: f"CISPO is meant to clip on one side alone; --eps-clip {a.value('eps_clip')} keeps the lower bound",
        "--eps-clip 1.0, and --eps-clip-high for the upper one",
    ),
    Rule(
        "T-wandb", "error", "--wandb-group",
        lambda a: a.on("use_wandb") and not a.text("wandb_group") and not a.on("disable_wandb_random_suffix"),
        "--use-wandb without --wandb-group: a TypeError at the start", "give --wandb-group",
    ),
    Rule(
        "T-board", "error", "--tb-project-name",
        lambda a: a.on("use_tensorboard")
        and not a.text("tb_project_name")
        and not a.environment.get("TENSORBOARD_DIR"),
        "--use-tensorboard without --tb-project-name or TENSORBOARD_DIR: a ValueError at the first log",
        "give --tb-project-name",
    ),
    Rule(
        "T-board", "warning", "--tb-experiment-name",
        lambda a: a.on("use_tensorboard")
        and not a.text("tb_experiment_name")
        and not a.environment.get("TENSORBOARD_DIR"),
        "without --tb-experiment-name every writing process picks a timestamp, so one run is spread over directories",
        "give --tb-experiment-name",
    ),
    Rule(
        "T-replay", "error", "--use-routing-replay",
        lambda a: a.on("use_routing_replay")
        and not a.on("use_rollout_routing_replay")
        and a.on("use_rollout_logprobs")
        and not a.on("get_mismatch_metrics"),
        "routing replay with --use-rollout-logprobs: no log-prob pass records choices, the replay reads an empty list",
        "--use-rollout-routing-replay, or leave one of them out",
    ),
    Rule(
        "T-replay", "error", "--qkv-format",
        lambda a: a.on("use_rollout_routing_replay") and a.text("qkv_format") == "bshd",
        "routing replay with --qkv-format bshd: slime cuts routing rows as for thd, so they do not meet their tokens",
        "--qkv-format thd",
    ),
    Rule(
        "T-replay", "error", "--allgather-cp",
        lambda a: a.on("use_rollout_routing_replay")
        and a.table.version == "0.3.0"  # v0.3.1 cuts rows as it cuts tokens
        and a.on("allgather_cp")
        and a.whole("context_parallel_size", 1) > 1,
        "routing replay with --allgather-cp: tokens are cut in one piece a rank, routing rows in two (zig-zag): every "
        "token replays another one's experts, and nothing stops",
        "leave --allgather-cp or --use-rollout-routing-replay out",
    ),
    Rule(
        "T-health", "warning", "--rollout-health-check-first-wait",
        lambda a: a.on("use_fault_tolerance") and a.number("rollout_health_check_first_wait") <= 0,
        "health checks start at once: an engine that compiles its kernels is killed for it",
        "--rollout-health-check-first-wait 300",
    ),
    Rule(
        "T-nodes", "warning", "--num-gpus-per-node",
        lambda a: a.whole("actor_num_nodes", 1) > 1
        and a.whole("actor_num_gpus_per_node", 8) < a.whole("num_gpus_per_node", 8)
        and not a.has("num_gpus_per_node"),
        "nodes with fewer than 8 GPUs need --num-gpus-per-node: ports, affinity and engine placement are computed from "
        "it",
        lambda a: f"--num-gpus-per-node {a.whole('actor_num_gpus_per_node', 8)}",
    ),
    Rule(
        "T-unsaved", "notice", "--save",
        lambda a: not a.text("save") and not a.on("debug_rollout_only"),
        "without --save nothing of the run is kept", "give --save and --save-interval",
    ),
    Rule(
        "T-wall", "notice", "--rollout-max-context-len",
        lambda a: a.has("rollout_max_context_len")
        and not a.text("custom_generate_function_path")
        and a.text("rollout_function_path") in (STOCK_FUNCTION, FULLY_ASYNC_FUNCTION),
        "slime's own rollout does not enforce --rollout-max-context-len; a multi-turn generate function must",
        "nothing to do",
    ),
    Rule(
        NO_EFFECT, "warning", "--num-critic-only-steps",
        lambda a: a.whole("num_critic_only_steps") > 0 and not _ppo(a),
        "--num-critic-only-steps has no effect without a critic", "leave it out",
    ),
    Rule(
        NO_EFFECT, "warning", "--value-clip",
        lambda a: a.has("value_clip") and not _ppo(a),
        "--value-clip has no effect without a critic", "leave it out",
    ),
    Rule(
        NO_EFFECT, "warning", "--update-weights-interval",
        lambda a: a.whole("update_weights_interval", 1) > 1 and not a.asynchronous,
        "train.py pushes weights after every rollout, whatever --update-weights-interval says", "leave it out",
    ),
    Rule(
        NO_EFFECT, "warning", "--expert-tensor-parallel-size",
        lambda a: a.whole("expert_tensor_parallel_size", 1) > 1 and not a.whole("num_experts"),
        "--expert-tensor-parallel-size has no effect for a model without experts", "leave it out",
    ),
    Rule(
        NO_EFFECT, "warning", "--context-parallel-size",
        lambda a: size(a, "context") > 1 and a.text("qkv_format") == "bshd",
        "context parallelism with --qkv-format bshd is not what slime's packing splits", "--qkv-format thd",
    ),
    *(
        Rule(
            NO_EFFECT, severity, flag,
            lambda a, dest=dest: _fully_async(a) and a.has(dest) and bool(a.value(dest)),  # type: ignore[misc]
            f"slime's fully-async rollout never reads {flag}: it trains on groups as they finish", "leave it out",
        )
        for severity, flag, dest in _NOT_FULLY_ASYNC
    ),
    _without("kl_loss_coef", "use_kl_loss"),
    _without("use_unbiased_kl", "use_kl_loss"),
    _without("tis_clip", "use_tis", "get_mismatch_metrics"),
    _without("tis_clip_low", "use_tis", "get_mismatch_metrics"),
    _without("opsm_delta", "use_opsm"),
    _without("mask_offpolicy_in_partial_rollout", "partial_rollout"),
    _without("rollout_health_check_interval", "use_fault_tolerance"),
    _without("rollout_health_check_timeout", "use_fault_tolerance"),
    _without("rollout_health_check_first_wait", "use_fault_tolerance"),
    _without("rollout_external_engine_addrs", "rollout_external"),
    _without("wandb_project", "use_wandb"),
    _without("wandb_group", "use_wandb"),
    _without("tb_project_name", "use_tensorboard"),
    _without("mtp_loss_scaling_factor", "enable_mtp_training", "mtp_num_layers"),
    _without("overlap_cpu_optimizer_d2h_h2d", "optimizer_cpu_offload"),
)  # fmt: skip
"""One row per trap."""
