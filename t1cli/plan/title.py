"""One line for people: algorithm, pipeline, hardware."""

from __future__ import annotations

from t1cli.plan.topology import Topology
from t1cli.spec.experiment import ExperimentSpec


def title(spec: ExperimentSpec, topology: Topology) -> str:
    """For example `PPO · one_step · 64 + 64 H200` or `PPO · sync · this machine`."""
    head = f"{spec.algorithm.kind.upper()} · {spec.rollout.pipeline}"
    if spec.engine.kind == "embedded":
        return f"{head} · this machine"
    if spec.topology.colocated:
        return f"{head} · {topology.train_gpus} {spec.hardware.gpu} shared"
    return f"{head} · {topology.train_gpus} + {topology.rollout_gpus} {spec.hardware.gpu}"
