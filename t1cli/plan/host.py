"""Host memory of one node, by term."""

from __future__ import annotations

from memory_model.units import GIB
from t1cli.plan.host_slime import slime_host_terms
from t1cli.plan.memory import MemoryAnswer
from t1cli.plan.memory_inputs import roles_of
from t1cli.plan.plan import HostPlan, PoolPlan, Schedule
from t1cli.plan.topology import Topology
from t1cli.spec.experiment import ExperimentSpec

# The embedded engine. Assumed round figures, not measured: what a process that imports torch for CPUs keeps resident,
# and a private Ray (GCS, raylet, agents). Exact: fp32 weights, gradients and two moments are 16 B a parameter.
TORCH_PROCESS_GIB, RAY_GIB, TRAINER_BYTES_PER_PARAMETER = 0.35, 0.6, 16
EMBEDDED_PROCESSES = 3
# Assumed: a shell and pytest inside a local sandbox; its limit (`sandbox.limits.memory_mib`) is far above that.
LOCAL_SANDBOX_GIB = 0.0625


def plan_host(
    spec: ExperimentSpec, *, topology: Topology, memory: MemoryAnswer, pool: PoolPlan, schedule: Schedule
) -> HostPlan:
    """Host memory of the fullest node; the sum of the terms against what the node has."""
    if spec.engine.kind == "embedded":
        terms = _embedded(spec, memory)
    elif memory.impossible:
        terms = {}
    else:
        terms = slime_host_terms(spec, topology=topology, schedule=schedule)
    terms |= {"sandboxes": _sandboxes_gib(spec, pool)}
    return HostPlan(spec.hardware.host_ram_gib, sum(terms.values()), terms)


def _embedded(spec: ExperimentSpec, memory: MemoryAnswer) -> dict[str, float]:
    return {
        "torch_processes": EMBEDDED_PROCESSES * TORCH_PROCESS_GIB,
        "ray": RAY_GIB,
        "weights_and_optimizer": len(roles_of(spec)) * memory.parameters.total * TRAINER_BYTES_PER_PARAMETER / GIB,
    }


def _sandboxes_gib(spec: ExperimentSpec, pool: PoolPlan) -> float:
    """Sandboxes that run on a training node: local ones, and a pool or environment placed there."""
    sandbox = spec.sandbox
    if sandbox.kind == "local":
        each = min(LOCAL_SANDBOX_GIB, sandbox.limits.memory_mib / 1024)
        return min(pool.demand, sandbox.capacity) * each
    if sandbox.kind == "pool":
        return pool.granted * sandbox.memory_per_sandbox_gib if sandbox.on_training_host else 0.0
    return pool.granted * sandbox.memory_per_sandbox_gib
