"""The bridge from a spec to memory_model: architecture, layout, workload and device."""

from __future__ import annotations

from memory_model.architecture import Architecture
from memory_model.device import Device
from memory_model.layout import Layout
from memory_model.models import architecture_from
from memory_model.terms.term import Role
from memory_model.workload import Experts, Loss, Optimizer, Recompute, Workload
from t1cli.plan.topology import Topology
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.trainer import FullRecompute, SelectiveRecompute, TrainerSpec


def architecture_of(spec: ExperimentSpec) -> Architecture:
    """The model's shape; the spec uses memory_model's own field names."""
    return architecture_from(spec.model.architecture.model_dump())


def layout_of(spec: ExperimentSpec, topology: Topology) -> Layout:
    """Megatron's axes over the training GPUs."""
    cut = spec.topology
    return Layout(
        world=topology.train_gpus,
        tp=cut.tp,
        pp=cut.pp,
        cp=cut.cp,
        ep=cut.ep,
        etp=cut.etp,
        vpp=cut.vpp,
        first_stage_layers=cut.first_stage_layers,
        last_stage_layers=cut.last_stage_layers,
    )


def device_of(spec: ExperimentSpec) -> Device:
    """What one GPU and one node offer."""
    hardware = spec.hardware
    return Device(
        hardware.gpu,
        hardware.usable_gib,
        gpus_per_node=hardware.gpus_per_node,
        host_ram_gib=hardware.host_ram_gib,
        cpu_cores=hardware.cpu_cores,
    )


def roles_of(spec: ExperimentSpec) -> tuple[Role, ...]:
    """Roles in the order they run within a step."""
    return ("critic", "actor") if spec.algorithm.kind == "ppo" else ("actor",)


def workload_of(spec: ExperimentSpec, topology: Topology) -> Workload:
    """One training step: the longest sample is a trial at the context wall, which cannot be split."""
    trainer, rollout = spec.trainer, spec.rollout
    samples = rollout.batch_size * rollout.samples_per_prompt
    return Workload(
        max_tokens_per_gpu=trainer.max_tokens_per_gpu,
        longest_sample_tokens=rollout.context_tokens,
        micro_batches=max(1, samples // max(1, topology.data_parallel)),
        recompute=_recompute(trainer),
        optimizer=_optimizer(trainer),
        loss=Loss(
            kind="t1_rl" if trainer.logits_bytes_form == "t1_report" else "slime_rl",
            temperature=rollout.temperature,
            entropy_gradient=spec.algorithm.entropy_coef > 0,
        ),
        experts=Experts(dispatcher=trainer.moe_dispatcher, imbalance=trainer.moe_imbalance),
        gdn_form="native_cp" if trainer.gdn_context_parallel == "native" else "slime",
        train_mtp=spec.model.train_mtp,
        # slime forces offload_train for PPO, whatever the flag says (utils/arguments.py: slime_validate_args).
        train_offload=trainer.offload_train or spec.algorithm.kind == "ppo",
        roles=roles_of(spec),
        colocated_rollout=spec.topology.colocated,
        sglang_mem_fraction=spec.engine.mem_fraction_static if spec.engine.kind == "slime" else 0.0,
    )


def _recompute(trainer: TrainerSpec) -> Recompute:
    chosen = trainer.recompute
    if isinstance(chosen, FullRecompute):
        return Recompute(kind=chosen.method, num_layers=chosen.num_layers)
    if isinstance(chosen, SelectiveRecompute):
        return Recompute(kind="selective", modules=frozenset(chosen.modules))
    return Recompute()


def _optimizer(trainer: TrainerSpec) -> Optimizer:
    offloaded = trainer.optimizer_offload_fraction if trainer.optimizer_cpu_offload else 0.0
    return Optimizer(precision_aware=trainer.precision_aware_optimizer, offload_fraction=offloaded)
