"""Who sits where: training GPUs, rollout GPUs, engines, and the parallel groups they form."""

from __future__ import annotations

from dataclasses import dataclass

from t1cli.spec.experiment import ExperimentSpec


@dataclass(frozen=True)
class Topology:
    """GPU counts that follow from `topology` and `hardware`; all 0 for the embedded engine."""

    train_gpus: int
    """World size of the trainers; actor and critic share it."""
    rollout_gpus: int
    """GPUs of the inference engines."""
    total_gpus: int
    """GPUs the campaign books: the sum, or the training GPUs alone when colocated."""
    cluster_gpus: int
    """GPUs that `hardware` says exist."""
    num_engines: int
    """Inference engines."""
    data_parallel: int
    """train_gpus / (tp · pp · cp), rounded down; 0 when the axes need more GPUs than there are."""
    expert_data_parallel: int
    """train_gpus / (pp · ep · etp), rounded down; 1 for a dense model means nothing."""


NO_GPUS = Topology(
    train_gpus=0,
    rollout_gpus=0,
    total_gpus=0,
    cluster_gpus=0,
    num_engines=0,
    data_parallel=0,
    expert_data_parallel=0,
)


def plan_topology(spec: ExperimentSpec) -> Topology:
    """GPU counts and group sizes of a spec. Never raises: what does not fit is said by `placement_problems`."""
    if spec.engine.kind == "embedded":
        return NO_GPUS
    cut = spec.topology
    per_node = spec.hardware.gpus_per_node if cut.train_gpus_per_node is None else cut.train_gpus_per_node
    train = cut.train_nodes * per_node
    return Topology(
        train_gpus=train,
        rollout_gpus=cut.rollout_gpus,
        total_gpus=max(train, cut.rollout_gpus) if cut.colocated else train + cut.rollout_gpus,
        cluster_gpus=spec.hardware.num_nodes * spec.hardware.gpus_per_node,
        num_engines=cut.rollout_gpus // cut.gpus_per_engine,
        data_parallel=train // (cut.tp * cut.pp * cut.cp),
        expert_data_parallel=train // (cut.pp * cut.ep * cut.etp),
    )


def placement_problems(spec: ExperimentSpec, topology: Topology) -> tuple[str, ...]:
    """Why these GPUs cannot be placed on this cluster, as arithmetic; empty when they can."""
    if spec.engine.kind == "embedded":
        return ()
    cut, problems = spec.topology, []
    if topology.total_gpus > topology.cluster_gpus:
        parts = "shared" if cut.colocated else f"{topology.train_gpus} training + {topology.rollout_gpus} rollout"
        problems.append(
            f"{topology.total_gpus} GPUs are booked ({parts}), the cluster has {spec.hardware.num_nodes} nodes × "
            f"{spec.hardware.gpus_per_node} = {topology.cluster_gpus}"
        )
    if spec.algorithm.kind == "grpo" and spec.algorithm.loss == "sft_loss" and not cut.rollout_gpus:
        return tuple(problems)  # given answers need no engine
    if topology.rollout_gpus < cut.gpus_per_engine:
        problems.append(f"{cut.rollout_gpus} rollout GPUs hold no engine of {cut.gpus_per_engine} GPUs")
    elif topology.rollout_gpus % cut.gpus_per_engine:
        problems.append(
            f"{cut.rollout_gpus} rollout GPUs are not a multiple of {cut.gpus_per_engine} GPUs per engine: "
            f"{cut.rollout_gpus % cut.gpus_per_engine} would idle"
        )
    return tuple(problems)
