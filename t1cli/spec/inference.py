"""`engine.sglang`: how the inference engines serve."""

from __future__ import annotations

from pydantic import PositiveInt

from t1cli.spec.block import Block


class Speculation(Block):
    """Speculative decoding."""

    algorithm: str
    """SGLang's name, for example `EAGLE`."""
    num_steps: PositiveInt
    """Draft steps."""
    topk: PositiveInt
    """Branches of a draft step."""
    num_draft_tokens: PositiveInt
    """Tokens verified together."""


class SGLangSpec(Block):
    """How the inference engines serve; null leaves SGLang's default."""

    expert_parallel: PositiveInt | None = None
    """Expert-parallel size of an engine."""
    data_parallel: PositiveInt | None = None
    """Attention data-parallel size; above 1 it needs `dp_attention`."""
    dp_attention: bool = False
    """Data-parallel attention."""
    dp_lm_head: bool = False
    """Data-parallel output head."""
    moe_dense_tp: PositiveInt | None = None
    """Tensor-parallel size of the dense layers of a MoE model."""
    moe_a2a_backend: str | None = None
    """Backend of the expert exchange, for example `deepep`."""
    deepep_mode: str | None = None
    """`normal`, `low_latency` or `auto`."""
    attention_backend: str | None = None
    """Attention kernels, for example `flashinfer` or `fa3`."""
    cuda_graph_batch_sizes: tuple[PositiveInt, ...] = ()
    """Batch sizes with a CUDA graph; empty leaves the choice to SGLang."""
    cuda_graph_max_batch_size: PositiveInt | None = None
    """Largest batch with a CUDA graph."""
    max_running_requests: PositiveInt | None = None
    """Requests that one engine decodes at once."""
    server_concurrency: PositiveInt | None = None
    """Requests that slime keeps in flight per engine; null leaves its 512."""
    mamba_scheduler: str | None = None
    """Scheduler of state-space layers."""
    speculation: Speculation | None = None
    """Speculative decoding; null is off."""
