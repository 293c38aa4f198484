"""What Megatron's validation raises on, as far as an argument list decides it (megatron/training/arguments.py)."""

from __future__ import annotations

from typing import Final

from t1cli.slime.arguments.problem import Rule
from t1cli.slime.arguments.read import Arguments


def world(a: Arguments) -> int:
    """Training GPUs."""
    return a.whole("actor_num_nodes", 1) * a.whole("actor_num_gpus_per_node", 8)


def size(a: Arguments, axis: str) -> int:
    """A parallel size, at least 1."""
    return max(1, a.whole(f"{axis}_parallel_size", 1))


def model_parallel(a: Arguments) -> int:
    """GPUs that hold one copy of the model."""
    return size(a, "tensor_model") * size(a, "pipeline_model") * size(a, "context")


def expert_tensor(a: Arguments) -> int:
    """Tensor-parallel size of the experts; Megatron's default is that of the rest."""
    given = a.value("expert_tensor_parallel_size")
    return int(given) if isinstance(given, int) and given > 0 else size(a, "tensor_model")


def _uneven_layers(a: Arguments) -> tuple[int, int]:
    """Layers and stages that are left for an even split."""
    layers, stages = a.whole("num_layers"), size(a, "pipeline_model")
    for end in ("first", "last"):
        given = a.whole(f"decoder_{end}_pipeline_num_layers")
        if given:
            layers, stages = layers - given, stages - 1
    return layers, stages


def _layers_do_not_split(a: Arguments) -> bool:
    layers, stages = _uneven_layers(a)
    given = bool(a.whole("num_layers")) and not a.text("pipeline_model_parallel_layout")
    return given and size(a, "pipeline_model") > 1 and (layers < 0 or (stages > 0 and layers % stages != 0))


def _groups_do_not_split(a: Arguments) -> bool:
    groups, tp = a.whole("num_query_groups"), size(a, "tensor_model")
    return a.on("group_query_attention") and groups > 0 and groups % tp != 0 and tp % groups != 0


def _decay_iterations(a: Arguments) -> int:
    """Length of the learning-rate schedule in optimizer steps; 0 where the data decides it."""
    given, batch = a.whole("lr_decay_iters"), a.whole("global_batch_size")
    steps = a.whole("num_steps_per_rollout")
    samples = a.whole("rollout_batch_size") * a.whole("n_samples_per_prompt", 1)
    batch = samples // steps if steps else batch
    return given or (a.whole("num_rollout") * samples // batch if batch else 0)


def _virtual(a: Arguments) -> bool:
    names = ("num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank")
    return any(a.whole(name) > 1 or a.has(name) for name in names)


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "T-world", "error", "--actor-num-nodes",
        lambda a: world(a) % model_parallel(a) != 0,
        lambda a: f"{world(a)} training GPUs are not a multiple of TP x PP x CP = {model_parallel(a)}",
        "change the parallel sizes or the number of GPUs",
    ),
    Rule(
        "T-world", "error", "--expert-model-parallel-size",
        lambda a: a.whole("num_experts") > 0
        and world(a) % (expert_tensor(a) * size(a, "expert_model") * size(a, "pipeline_model")) != 0,
        lambda a: f"{world(a)} training GPUs are not a multiple of ETP x EP x PP = "
        f"{expert_tensor(a) * size(a, 'expert_model') * size(a, 'pipeline_model')}",
        "change the expert-parallel sizes",
    ),
    Rule(
        "T-experts", "error", "--expert-model-parallel-size",
        lambda a: size(a, "expert_model") > 1 and not a.whole("num_experts"),
        "expert parallelism for a model without experts", "--expert-model-parallel-size 1",
    ),
    Rule(
        "T-experts", "error", "--expert-model-parallel-size",
        lambda a: a.whole("num_experts") % size(a, "expert_model") != 0,
        lambda a: f"{a.value('num_experts')} experts over {size(a, 'expert_model')} expert-parallel ranks",
        "a divisor of the experts",
    ),
    Rule(
        "T-experts", "error", "--sequence-parallel",
        lambda a: a.whole("num_experts") > 0 and size(a, "tensor_model") > 1 and not a.on("sequence_parallel"),
        "experts under tensor parallelism without --sequence-parallel: every MoE layer raises while it trains",
        "add --sequence-parallel",
    ),
    Rule(
        "T-heads", "error", "--tensor-model-parallel-size",
        lambda a: a.whole("num_attention_heads") % size(a, "tensor_model") != 0,
        lambda a: f"{a.value('num_attention_heads')} heads over TP {size(a, 'tensor_model')}", "a divisor of the heads",
    ),
    Rule(
        "T-heads", "error", "--tensor-model-parallel-size",
        _groups_do_not_split,
        lambda a: f"{a.value('num_query_groups')} key/value groups over TP {size(a, 'tensor_model')}",
        "a divisor or a multiple of the groups",
    ),
    Rule(
        "T-heads", "error", "--kv-channels",
        lambda a: a.value("kv_channels") is None
        and a.whole("num_attention_heads") > 0
        and a.whole("hidden_size") % a.whole("num_attention_heads") != 0,
        "the hidden size is not a multiple of the heads, and --kv-channels is not given", "give --kv-channels",
    ),
    Rule(
        "T-stages", "error", "--pipeline-model-parallel-size",
        _layers_do_not_split,
        lambda a: "{} layers do not split over {} even pipeline stages".format(*_uneven_layers(a)),
        "--decoder-first-pipeline-num-layers or --decoder-last-pipeline-num-layers",
    ),
    Rule(
        "T-stages", "error", "--decoder-last-pipeline-num-layers",
        lambda a: size(a, "pipeline_model") == 1
        and any(a.value(f"decoder_{end}_pipeline_num_layers") is not None for end in ("first", "last")),
        "layer counts of the first or last stage with one pipeline stage", "leave them out",
    ),
    Rule(
        "T-stages", "error", "--num-virtual-stages-per-pipeline-rank",
        lambda a: _virtual(a) and size(a, "pipeline_model") == 1,
        "virtual pipeline stages with one pipeline stage", "leave them out",
    ),
    Rule(
        "T-recompute", "error", "--recompute-method",
        lambda a: a.text("recompute_granularity") == "selective" and bool(a.text("recompute_method")),
        "--recompute-granularity selective takes no --recompute-method", "leave the method out",
    ),
    Rule(
        "T-recompute", "error", "--recompute-method",
        lambda a: a.text("recompute_granularity") == "full" and not a.text("recompute_method"),
        "--recompute-granularity full needs --recompute-method", "--recompute-method uniform",
    ),
    Rule(
        "T-recompute", "error", "--recompute-granularity",
        lambda a: bool(a.text("recompute_method")) and not a.text("recompute_granularity"),
        "--recompute-method without --recompute-granularity recomputes nothing", "--recompute-granularity full",
    ),
    Rule(
        "T-env", "error", "CUDA_DEVICE_MAX_CONNECTIONS",
        lambda a: size(a, "tensor_model") * size(a, "context") > 1
        and bool(a.environment)
        and a.environment.get("CUDA_DEVICE_MAX_CONNECTIONS") != "1",
        "tensor or context parallelism needs CUDA_DEVICE_MAX_CONNECTIONS=1 before Blackwell",
        "set it in the job's environment: --set 'engine.env.CUDA_DEVICE_MAX_CONNECTIONS=\"1\"'",
    ),
    Rule(
        "T-lr", "error", "--min-lr",
        lambda a: a.value("lr") is not None and a.number("min_lr") > a.number("lr"),
        "--min-lr is above --lr", "at most --lr",
    ),
    Rule(
        "T-lr", "error", "--lr-warmup-fraction",
        lambda a: a.value("lr_warmup_fraction") is not None and a.whole("lr_warmup_iters") > 0,
        "--lr-warmup-fraction with --lr-warmup-iters", "keep one of them",
    ),
    Rule(
        "T-lr", "error", "--lr-warmup-iters",
        lambda a: 0 < _decay_iterations(a) <= a.whole("lr_warmup_iters"),
        lambda a: f"{a.value('lr_warmup_iters')} warm-up iterations of a schedule of {_decay_iterations(a)}: the "
        "scheduler asserts that the warm-up is shorter",
        "fewer --lr-warmup-iters, or more --lr-decay-iters",
    ),
    Rule(
        "T-offload", "error", "--optimizer-cpu-offload",
        lambda a: a.on("optimizer_cpu_offload") and not a.on("use_precision_aware_optimizer"),
        "--optimizer-cpu-offload needs --use-precision-aware-optimizer (Megatron asserts it)",
        "add --use-precision-aware-optimizer",
    ),
    Rule(
        "T-precision", "error", "--fp16",
        lambda a: a.on("fp16") and a.has("bf16") and a.on("bf16"),
        "--fp16 with --bf16: slime turns bf16 off without a word", "keep one of them",
    ),
    Rule(
        "T-overlap", "error", "--overlap-param-gather",
        lambda a: a.on("overlap_param_gather") and not a.on("overlap_grad_reduce"),
        "--overlap-param-gather needs --overlap-grad-reduce", "add --overlap-grad-reduce",
    ),
)  # fmt: skip
"""One row per assertion."""
