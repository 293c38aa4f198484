"""Host memory of a training node under slime: what offload, snapshots, routing rows and processes keep there."""

from __future__ import annotations

from memory_model import Layout, Workload
from memory_model.host import ENGINE_GIB, PROCESS_GIB, heaviest_counts
from memory_model.terms.optimizer import host_optimizer_bytes, optimizer_bytes
from memory_model.terms.weights import WEIGHT_BYTES
from memory_model.units import GIB
from t1cli.plan.memory_inputs import architecture_of, layout_of, roles_of, workload_of
from t1cli.plan.plan import Schedule
from t1cli.plan.topology import Topology
from t1cli.spec.experiment import ExperimentSpec

# Assumed, no public reading isolates it: Ray's daemons and the driver on the head node.
RAY_GIB = 8.0


def slime_host_terms(spec: ExperimentSpec, *, topology: Topology, schedule: Schedule) -> dict[str, float]:
    """GiB by term on the fullest training node: all its GPUs on the heaviest stage, and the head's batch of routing."""
    layout, workload = layout_of(spec, topology), workload_of(spec, topology)
    per_node = min(topology.train_gpus, spec.topology.train_gpus_per_node or spec.hardware.gpus_per_node)
    terms = {name: size * per_node / GIB for name, size in _per_gpu(spec, layout, workload).items() if size}
    # Engines share a training node where they share its GPUs, or where the trainers leave some free.
    engines = per_node if spec.topology.colocated else max(0, spec.hardware.gpus_per_node - per_node)
    return terms | {
        "routing_rows": schedule.routing_bytes_per_step * _batches_alive(spec) / GIB,
        "processes": per_node * len(roles_of(spec)) * PROCESS_GIB + engines * ENGINE_GIB + RAY_GIB,
    }


def _per_gpu(spec: ExperimentSpec, layout: Layout, workload: Workload) -> dict[str, float]:
    """Bytes that one GPU's trainer processes keep on the host, both roles together.

    CPU Adam 16 B per owned parameter. torch_memory_saver copies what it pauses to the host: the critic's weights and
    both roles' optimizer state; slime takes the actor's weights and both roles' gradient buffers out of it, and keeps
    the actor's weights and every snapshot in pinned copies of its own (slime 0.3.0, utils/arguments.py:
    disable_param_buffers_cpu_backup, disable_grad_buffers_cpu_backup; backends/megatron_utils/actor.py:
    weights_backuper).
    """
    arch = architecture_of(spec)
    held = [heaviest_counts(arch, layout, workload, critic=role == "critic") for role in roles_of(spec)]
    counts = max(held, key=lambda counts: counts.total)
    weights = counts.total * WEIGHT_BYTES
    roles = len(roles_of(spec))
    offloaded = roles * optimizer_bytes(counts, layout, workload.optimizer) + (roles - 1) * weights
    return {
        "cpu_optimizer": roles * host_optimizer_bytes(counts, layout, workload.optimizer),
        "offloaded_train_state": offloaded if workload.train_offload else 0.0,
        "actor_weights": weights,
        "reference_snapshot": weights if needs_reference(spec) else 0.0,
        "old_actor_snapshots": weights * old_actor_copies(spec),
    }


def needs_reference(spec: ExperimentSpec) -> bool:
    """Whether slime loads the reference model: for a KL penalty, or for a KL loss, be its weight 0."""
    algorithm = spec.algorithm
    loss = algorithm.kl_loss_coef > 0 if algorithm.use_kl_loss is None else algorithm.use_kl_loss
    return loss or algorithm.kl_reward_coef > 0


def old_actor_copies(spec: ExperimentSpec) -> int:
    """keep-old-actor with update interval 1 keeps `old_actor` and `rollout_actor` (C9); a sync run keeps none."""
    keep = spec.algorithm.keep_old_actor
    if keep is None:
        keep = spec.rollout.pipeline != "sync"
    return 2 if keep else 0


def _batches_alive(spec: ExperimentSpec) -> int:
    """A pipelined run holds the batch in training and the one being generated."""
    return 1 if spec.rollout.pipeline == "sync" else 2
