"""What an inference engine holds: its weights, and the trials' contexts that its KV cache has room for."""

from __future__ import annotations

from dataclasses import dataclass

from memory_model import Architecture
from memory_model.units import GIB
from t1cli.plan.memory import total_parameters
from t1cli.plan.memory_inputs import architecture_of
from t1cli.plan.pool import rollout_demand
from t1cli.plan.topology import Topology
from t1cli.spec.experiment import ExperimentSpec

BF16 = 2


@dataclass(frozen=True)
class EngineMemory:
    """One engine of SGLang, per GPU. The static share holds weights and KV cache (`--mem-fraction-static`)."""

    static_gib: float
    weights_gib: float
    """bf16 weights over the engine's GPUs; expert and attention weights are taken to split evenly."""
    kv_bytes_per_token: int
    """Over the whole engine: keys and values of full-attention layers, or the MLA latent."""
    kv_tokens: int
    """Tokens of context that the engine's KV cache holds; 0 when the weights leave nothing."""
    full_contexts: float
    """Trials at the context wall that one engine holds at once."""
    trials_per_engine: float
    """Trials of one rollout over the engines."""


def plan_engine(spec: ExperimentSpec, topology: Topology) -> EngineMemory | None:
    """Memory of one engine; None without GPUs or engines."""
    if spec.engine.kind != "slime" or not topology.num_engines:
        return None
    arch, gpus = architecture_of(spec), spec.topology.gpus_per_engine
    static = spec.engine.mem_fraction_static * spec.hardware.usable_gib
    weights = total_parameters(spec, arch) * BF16 / gpus / GIB
    per_token = kv_bytes_per_token(arch, gpus)
    kv_tokens = max(0, int((static - weights) * GIB * gpus / per_token))
    return EngineMemory(
        static_gib=static,
        weights_gib=weights,
        kv_bytes_per_token=per_token,
        kv_tokens=kv_tokens,
        full_contexts=kv_tokens / spec.rollout.context_tokens,
        trials_per_engine=rollout_demand(spec).leases / topology.num_engines,
    )


def kv_bytes_per_token(arch: Architecture, tp: int) -> int:
    """Bytes of one token over a tensor-parallel engine; KV heads fewer than `tp` are copied, MLA's latent always is."""
    layers = sum(arch.has_full_attention(layer) for layer in range(arch.num_hidden_layers))
    if arch.mla is not None:
        return layers * (arch.mla.kv_lora_rank + arch.mla.qk_rope_head_dim) * BF16 * tp
    heads = max(arch.num_key_value_heads, tp)
    return layers * 2 * heads * arch.head_dim * BF16
