"""Rows of `topology`, `trainer` and `algorithm`: how a training step runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from t1cli.slime.compile.hooks import RECORD_CORRECTION
from t1cli.slime.compile.row import Pair, Reading, Row, Updates, View, fixed, switch, text, unless, value
from t1cli.spec.trainer import FullRecompute, SelectiveRecompute


def train_gpus_per_node(view: View) -> int:
    """Training GPUs on each training node."""
    given = view.spec.topology.train_gpus_per_node
    return view.spec.hardware.gpus_per_node if given is None else given


def samples_per_rollout(view: View) -> int:
    """Samples that one rollout trains on."""
    return view.spec.rollout.batch_size * view.spec.rollout.samples_per_prompt


def steps_per_rollout(view: View) -> int:
    """Optimizer steps of one rollout; 1 for PPO."""
    return view.spec.algorithm.steps_per_rollout if view.spec.algorithm.kind == "grpo" else 1


def _gpus(view: View) -> Sequence[Pair]:
    return (("--actor-num-gpus-per-node", (text(train_gpus_per_node(view)),)),)


def _node_size(view: View) -> Sequence[Pair]:
    per_node = view.spec.hardware.gpus_per_node
    return (("--num-gpus-per-node", (text(per_node),)),) if per_node != 8 or not view.from_script else ()


def _rollout_gpus(view: View) -> Sequence[Pair]:
    cut = view.spec.topology
    return () if cut.colocated and not view.from_script else (("--rollout-num-gpus", (text(cut.rollout_gpus),)),)


def _sequence_parallel(view: View) -> Sequence[Pair]:
    asked = view.spec.topology.sequence_parallel
    on = view.spec.topology.tp > 1 if asked is None else asked
    return (("--sequence-parallel", ()),) if on else ()


def _virtual_stages(view: View) -> Sequence[Pair]:
    vpp = view.spec.topology.vpp
    return (("--num-virtual-stages-per-pipeline-rank", (text(vpp),)),) if vpp > 1 else ()


def _recompute(view: View) -> Sequence[Pair]:
    chosen = view.spec.trainer.recompute
    if isinstance(chosen, FullRecompute):
        return (
            ("--recompute-granularity", ("full",)),
            ("--recompute-method", (chosen.method,)),
            ("--recompute-num-layers", (text(chosen.num_layers),)),
        )
    if isinstance(chosen, SelectiveRecompute):
        modules = (("--recompute-modules", chosen.modules),) if chosen.modules != ("core_attn",) else ()
        return (("--recompute-granularity", ("selective",)), *modules)
    return ()


def _read_recompute(reading: Reading) -> Updates:
    kind = reading.get("--recompute-granularity")
    if kind == "full":
        method, layers = reading.get("--recompute-method", "uniform"), reading.get("--recompute-num-layers", 1)
        return {"trainer.recompute": {"kind": "full", "method": method, "num_layers": layers}}
    if kind == "selective":
        return {
            "trainer.recompute": {"kind": "selective", "modules": reading.get("--recompute-modules", ["core_attn"])}
        }
    return {}


def _offload_train(view: View) -> Sequence[Pair]:
    if view.ppo:  # slime forces it, and PPO's second role needs it
        return (("--offload-train", ()),)
    return (("--offload-train", ()),) if view.spec.trainer.offload_train else (("--no-offload-train", ()),)


def _offload_fraction(view: View) -> Sequence[Pair]:
    trainer = view.spec.trainer
    if not trainer.optimizer_cpu_offload or (trainer.optimizer_offload_fraction == 1.0 and view.from_script):
        return ()
    return (("--optimizer-offload-fraction", (text(trainer.optimizer_offload_fraction),)),)


def _packing(view: View) -> Sequence[Pair]:
    trainer = view.spec.trainer
    if not trainer.dynamic_batch:
        return ()
    return (("--use-dynamic-batch-size", ()), ("--max-tokens-per-gpu", (text(trainer.max_tokens_per_gpu),)))


def _read_packing(reading: Reading) -> Updates:
    found: dict[str, Any] = {"trainer.dynamic_batch": "--use-dynamic-batch-size" in reading}
    if "--max-tokens-per-gpu" in reading:
        found["trainer.max_tokens_per_gpu"] = reading["--max-tokens-per-gpu"]
    return found


def _timeout(view: View) -> Sequence[Pair]:
    return (("--distributed-timeout-minutes", (text(view.spec.trainer.nccl_timeout_minutes),)),)


def _precision(view: View) -> Sequence[Pair]:
    return (("--bf16", ()),) if view.spec.trainer.precision == "bf16" else ()


def _estimator(view: View) -> Sequence[Pair]:
    algorithm = view.spec.algorithm
    return (("--advantage-estimator", (algorithm.estimator if algorithm.kind == "grpo" else "ppo",)),)


def _read_estimator(reading: Reading) -> Updates:
    given = reading.get("--advantage-estimator")
    if given == "ppo":
        return {"algorithm.kind": "ppo"}
    return {"algorithm.kind": "grpo", **({"algorithm.estimator": given} if given is not None else {})}


def _loss(view: View) -> Sequence[Pair]:
    if view.spec.algorithm.kind == "grpo" and view.spec.algorithm.loss == "sft_loss":
        return (("--loss-type", ("sft_loss",)), ("--disable-compute-advantages-and-returns", ()))
    return ()


def _read_loss(reading: Reading) -> Updates:
    return {"algorithm.loss": "sft_loss"} if reading.get("--loss-type") == "sft_loss" else {}


def _clip_high(view: View) -> Sequence[Pair]:
    algorithm = view.spec.algorithm
    if algorithm.kind == "ppo" or algorithm.clip_high is None:
        return ()
    return (("--eps-clip-high", (text(algorithm.clip_high),)),)


def _kl_loss(view: View) -> Sequence[Pair]:
    algorithm = view.spec.algorithm
    on = algorithm.kl_loss_coef > 0 if algorithm.use_kl_loss is None else algorithm.use_kl_loss
    return (("--use-kl-loss", ()),) if on else ()


def _kl_coefficient(view: View) -> Sequence[Pair]:
    return (("--kl-loss-coef", (text(view.spec.algorithm.kl_loss_coef),)),)


def _batch(view: View) -> Sequence[Pair]:
    steps = steps_per_rollout(view)
    return (
        ("--num-steps-per-rollout", (text(steps),)),
        ("--global-batch-size", (text(max(1, samples_per_rollout(view) // steps)),)),
    )


def _read_batch(reading: Reading) -> Updates:
    batch, per_prompt = reading.get("--rollout-batch-size"), reading.get("--n-samples-per-prompt", 1)
    size, steps = reading.get("--global-batch-size"), reading.get("--num-steps-per-rollout")
    if isinstance(steps, int):
        return {"algorithm.steps_per_rollout": steps}
    if isinstance(batch, int) and isinstance(per_prompt, int) and isinstance(size, int) and size > 0:
        samples = batch * per_prompt
        return {"algorithm.steps_per_rollout": samples // size} if samples % size == 0 and samples >= size else {}
    return {}


def _correction(view: View) -> Sequence[Pair]:
    correction = view.spec.algorithm.correction
    clip = (("--tis-clip", (text(correction.clip),)),)
    if correction.kind == "apply":
        return (("--use-tis", ()), *(() if view.from_script and not view.written(_CLIP) else clip))
    if correction.kind == "record" and not view.from_script:
        return (("--get-mismatch-metrics", ()), ("--custom-tis-function-path", (RECORD_CORRECTION,)), *clip)
    return ()


_CLIP: Final = "algorithm.correction.clip"


def _read_correction(reading: Reading) -> Updates:
    found: dict[str, Any] = {"algorithm.correction.kind": "apply" if "--use-tis" in reading else "none"}
    if "--tis-clip" in reading and "--use-tis" in reading:
        found[_CLIP] = reading["--tis-clip"]
    return found


def _old_actor(view: View) -> Sequence[Pair]:
    """The snapshot rotates at every weight push, so the interval is 1 (catalogue C9)."""
    if not view.asynchronous or view.spec.algorithm.keep_old_actor is False:
        return ()
    return (("--keep-old-actor", ()), ("--update-weights-interval", ("1",)))


def _read_old_actor(reading: Reading) -> Updates:
    return {"algorithm.keep_old_actor": "--keep-old-actor" in reading}


def _critic_steps(view: View) -> Sequence[Pair]:
    assert view.spec.algorithm.kind == "ppo"
    return (("--num-critic-only-steps", (text(view.spec.algorithm.critic.critic_only_steps),)),)


def _ppo(view: View) -> bool:
    return view.ppo


def _grpo(view: View) -> bool:
    return not view.ppo


def _moe(view: View) -> bool:
    return view.moe


ROWS: Final[tuple[Row, ...]] = (
    value("--actor-num-nodes", "topology.train_nodes"),
    Row(
        ("--actor-num-gpus-per-node",), ("topology.train_gpus_per_node", "hardware.gpus_per_node"), _gpus,
        lambda reading: {"topology.train_gpus_per_node": reading.get("--actor-num-gpus-per-node", 8)},
    ),
    Row(("--num-gpus-per-node",), ("hardware.gpus_per_node",), _node_size,
        lambda reading: (
            {"hardware.gpus_per_node": reading["--num-gpus-per-node"]} if "--num-gpus-per-node" in reading else {}
        )),
    Row(("--rollout-num-gpus",), ("topology.rollout_gpus",), _rollout_gpus,
        lambda reading: (
            {"topology.rollout_gpus": reading["--rollout-num-gpus"]} if "--rollout-num-gpus" in reading else {}
        )),
    value("--rollout-num-gpus-per-engine", "topology.gpus_per_engine"),
    switch("--colocate", "topology.colocated"),
    value("--tensor-model-parallel-size", "topology.tp"),
    Row(("--sequence-parallel",), ("topology.sequence_parallel", "topology.tp"), _sequence_parallel,
        lambda reading: {"topology.sequence_parallel": "--sequence-parallel" in reading}),
    value("--pipeline-model-parallel-size", "topology.pp"),
    Row(("--num-virtual-stages-per-pipeline-rank",), ("topology.vpp",), _virtual_stages,
        lambda reading: (
            {"topology.vpp": reading["--num-virtual-stages-per-pipeline-rank"]}
            if "--num-virtual-stages-per-pipeline-rank" in reading else {}
        )),
    value("--context-parallel-size", "topology.cp"),
    value("--expert-model-parallel-size", "topology.ep"),
    value("--expert-tensor-parallel-size", "topology.etp"),
    value("--decoder-first-pipeline-num-layers", "topology.first_stage_layers"),
    value("--decoder-last-pipeline-num-layers", "topology.last_stage_layers"),
    Row(("--bf16",), ("trainer.precision",), _precision,
        lambda reading: {"trainer.precision": "bf16"} if "--bf16" in reading else {}),
    Row(("--recompute-granularity", "--recompute-method", "--recompute-num-layers", "--recompute-modules"),
        ("trainer.recompute",), _recompute, _read_recompute),
    Row(("--use-dynamic-batch-size", "--max-tokens-per-gpu"), ("trainer.max_tokens_per_gpu",), _packing, _read_packing),
    value("--micro-batch-size", "trainer.micro_batch_size"),
    value("--qkv-format", "trainer.qkv_format", lambda view: view.from_script),
    switch("--balance-data", "trainer.balance_data"),
    value("--log-probs-chunk-size", "trainer.log_probs_chunk_size"),
    switch("--optimizer-cpu-offload", "trainer.optimizer_cpu_offload"),
    Row(("--optimizer-offload-fraction",), ("trainer.optimizer_offload_fraction",), _offload_fraction,
        lambda reading: (
            {"trainer.optimizer_offload_fraction": reading["--optimizer-offload-fraction"]}
            if "--optimizer-offload-fraction" in reading else {}
        )),
    switch("--overlap-cpu-optimizer-d2h-h2d", "trainer.overlap_optimizer_offload"),
    switch("--use-precision-aware-optimizer", "trainer.precision_aware_optimizer"),
    Row(("--offload-train", "--no-offload-train"), ("trainer.offload_train",), _offload_train,
        lambda reading: (
            {"trainer.offload_train": reading["--offload-train"]} if "--offload-train" in reading else {}
        )),
    Row(("--distributed-timeout-minutes",), ("trainer.nccl_timeout_minutes",), _timeout,
        lambda reading: (
            {"trainer.nccl_timeout_minutes": reading["--distributed-timeout-minutes"]}
            if "--distributed-timeout-minutes" in reading else {}
        )),
    value("--attention-backend", "trainer.attention_backend"),
    value("--attention-dropout", "trainer.attention_dropout"),
    value("--hidden-dropout", "trainer.hidden_dropout"),
    switch("--accumulate-allreduce-grads-in-fp32", "trainer.fp32_gradients"),
    switch("--attention-softmax-in-fp32", "trainer.fp32_attention_softmax"),
    value("--moe-token-dispatcher-type", "trainer.moe_dispatcher", _moe),
    switch("--moe-enable-deepep", "trainer.deepep", _moe),
    value("--update-weight-buffer-size", "trainer.weight_push_buffer_bytes"),
    Row(("--megatron-to-hf-mode",), ("trainer.bridge",),
        lambda view: (("--megatron-to-hf-mode", ("bridge",)),) if view.spec.trainer.bridge else (),
        lambda reading: {"trainer.bridge": True} if reading.get("--megatron-to-hf-mode") == "bridge" else {}),
    Row(("--advantage-estimator",), ("algorithm.kind", "algorithm.estimator"), _estimator, _read_estimator),
    Row(("--loss-type", "--disable-compute-advantages-and-returns"), ("algorithm.loss",), _loss, _read_loss),
    value("--eps-clip", "algorithm.clip"),
    Row(("--eps-clip-high",), ("algorithm.clip_high",), _clip_high,
        lambda reading: {"algorithm.clip_high": reading["--eps-clip-high"]} if "--eps-clip-high" in reading else {}),
    value("--value-clip", "algorithm.critic.value_clip", _ppo),
    Row(("--num-critic-only-steps",), ("algorithm.critic.critic_only_steps",), _critic_steps,
        lambda reading: (
            {"algorithm.critic.critic_only_steps": reading["--num-critic-only-steps"]}
            if "--num-critic-only-steps" in reading else {}
        ), _ppo),
    value("--gamma", "algorithm.gamma", _ppo),
    value("--lambd", "algorithm.lam", _ppo),
    Row(("--use-kl-loss",), ("algorithm.use_kl_loss", "algorithm.kl_loss_coef"), _kl_loss,
        lambda reading: {"algorithm.use_kl_loss": "--use-kl-loss" in reading}),
    Row(("--kl-loss-coef",), ("algorithm.kl_loss_coef",), _kl_coefficient,
        lambda reading: {"algorithm.kl_loss_coef": reading["--kl-loss-coef"]} if "--kl-loss-coef" in reading else {}),
    value("--kl-loss-type", "algorithm.kl_loss_kind", _grpo),
    value("--kl-coef", "algorithm.kl_reward_coef"),
    value("--entropy-coef", "algorithm.entropy_coef"),
    value("--moe-aux-loss-coeff", "algorithm.aux_loss_coef", _moe),
    switch("--normalize-advantages", "algorithm.normalize_advantages"),
    unless("--disable-grpo-std-normalization", "algorithm.normalize_std", _grpo),
    switch("--calculate-per-token-loss", "algorithm.per_token_loss"),
    Row(("--num-steps-per-rollout", "--global-batch-size"),
        ("algorithm.steps_per_rollout", "rollout.batch_size"), _batch, _read_batch),
    value("--lr", "algorithm.actor_learning_rate"),
    fixed("--optimizer", "algorithm.adam", "adam"),
    value("--lr-decay-style", "algorithm.adam.lr_schedule"),
    value("--min-lr", "algorithm.adam.min_learning_rate"),
    value("--lr-warmup-fraction", "algorithm.adam.warmup_fraction"),
    value("--weight-decay", "algorithm.adam.weight_decay"),
    value("--adam-beta1", "algorithm.adam.beta1"),
    value("--adam-beta2", "algorithm.adam.beta2"),
    value("--clip-grad", "algorithm.adam.grad_clip"),
    Row(("--use-tis", "--tis-clip", "--get-mismatch-metrics", "--custom-tis-function-path"),
        ("algorithm.correction",), _correction, _read_correction),
    Row(("--keep-old-actor", "--update-weights-interval"), ("algorithm.keep_old_actor", "rollout.pipeline"), _old_actor,
        _read_old_actor),
)  # fmt: skip
