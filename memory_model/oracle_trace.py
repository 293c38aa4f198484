"""The trace itself: shims that let Megatron-core build and run on the meta device, and the count of saved tensors.

Imported only by the oracle; needs torch and megatron-core.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memory_model.oracle import Shape

WORLD = 8


def trace(shape: Shape, layers: int) -> dict[str, int]:
    """Bytes that autograd saves in the forward pass of a model with `layers` layers, by module, parameters excluded."""
    os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    _install()
    _initialise(shape)
    saved: dict[str, int] = {}
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), torch.device("meta"):
            model = _model(shape, layers)
            _count(model, shape, saved)
    finally:
        _shutdown()
    return saved


def _count(model: Any, shape: Shape, saved: dict[str, int]) -> None:
    import torch

    parameters = {p.untyped_storage()._cdata for p in model.parameters()}
    current: list[str] = ["model"]
    seen: dict[int, Any] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in parameters and key not in seen and tensor.is_floating_point():
            seen[key] = storage
            saved[current[-1]] = saved.get(current[-1], 0) + storage.nbytes()
        elif key not in parameters and key not in seen:
            seen[key] = storage
            name = current[-1] + " (indices)"
            saved[name] = saved.get(name, 0) + storage.nbytes()
        return tensor

    for name, module in model.named_modules():
        short = ".".join(part for part in name.split(".") if not part.isdigit()) or "model"
        module.register_forward_pre_hook(lambda _m, _a, short=short: current.append(short))
        module.register_forward_hook(lambda _m, _a, _o: current.pop() and None)
    tokens = torch.zeros((1, shape.sequence_tokens), dtype=torch.long)
    positions = torch.zeros((1, shape.sequence_tokens), dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(tokens, positions, None, labels=tokens)
    # The graph must stay alive until everything is counted.
    assert loss is not None


def _model(shape: Shape, layers: int) -> Any:
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer.transformer_block import TransformerBlockSubmodules

    config = _config(shape, layers)
    arch = shape.arch
    spec = get_gpt_layer_local_spec(
        num_experts=arch.num_experts or None, moe_grouped_gemm=False, qk_layernorm=arch.qk_layernorm
    )
    _use_own_modules(spec)
    block = TransformerBlockSubmodules(layer_specs=[spec] * layers, layer_norm=_norm_class())
    return GPTModel(
        config=config,
        transformer_layer_spec=block,
        vocab_size=-(-arch.vocab_size // (128 * shape.tp)) * 128 * shape.tp,
        max_sequence_length=shape.sequence_tokens,
        share_embeddings_and_output_weights=False,
        position_embedding_type="rope",
    )


def _config(shape: Shape, layers: int) -> Any:
    import torch
    from megatron.core.transformer import TransformerConfig

    arch = shape.arch
    moe: dict[str, Any] = {}
    if arch.is_moe:
        moe = {
            "num_moe_experts": arch.num_experts,
            "moe_router_topk": arch.num_experts_per_tok,
            "moe_ffn_hidden_size": arch.moe_intermediate_size,
            "moe_shared_expert_intermediate_size": arch.shared_expert_intermediate_size or None,
            "moe_token_dispatcher_type": "alltoall",
            "moe_router_load_balancing_type": "none",
            "moe_expert_capacity_factor": 1.0,
            "moe_pad_expert_input_to_capacity": True,
            "moe_grouped_gemm": False,
        }
    return TransformerConfig(
        num_layers=layers,
        hidden_size=arch.hidden_size,
        num_attention_heads=arch.num_attention_heads,
        num_query_groups=arch.num_key_value_heads,
        kv_channels=arch.head_dim,
        ffn_hidden_size=arch.intermediate_size or arch.moe_intermediate_size,
        tensor_model_parallel_size=shape.tp,
        expert_model_parallel_size=shape.ep,
        expert_tensor_parallel_size=1,
        sequence_parallel=shape.tp > 1,
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        add_bias_linear=False,
        normalization="RMSNorm",
        hidden_dropout=0.0,
        attention_dropout=0.0,
        bf16=True,
        params_dtype=torch.bfloat16,
        bias_activation_fusion=True,
        bias_dropout_fusion=False,
        masked_softmax_fusion=False,
        apply_rope_fusion=False,
        gradient_accumulation_fusion=False,
        persist_layer_norm=False,
        perform_initialization=False,
        use_cpu_initialization=False,
        **moe,
    )


def _norm_class() -> Any:
    import torch

    class _Norm(torch.nn.Module):
        """RMSNorm in one operator, keeping its input as Transformer Engine's does."""

        def __init__(self, config: Any, hidden_size: int, eps: float = 1e-6, **_: Any) -> None:
            super().__init__()
            self.eps = eps
            self.weight = torch.nn.Parameter(torch.ones(hidden_size, dtype=config.params_dtype))
            self.weight.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]

        def forward(self, hidden: Any) -> Any:
            apply: Any = _Normalise.apply
            return apply(hidden, self.weight)

    class _Normalise(torch.autograd.Function):
        """What a fused RMSNorm kernel saves: its input and one fp32 number a token."""

        @staticmethod
        def forward(ctx: Any, hidden: Any, weight: Any) -> Any:
            hidden = hidden.contiguous()
            ctx.save_for_backward(hidden, hidden.new_empty(hidden.shape[:-1], dtype=torch.float32), weight)
            return torch.empty_like(hidden)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            hidden, _, weight = ctx.saved_tensors
            return torch.empty_like(hidden), torch.empty_like(weight)

    return _Norm


def _attention_class() -> Any:
    import torch

    class _Attention(torch.nn.Module):
        """Flash attention on contiguous q, k and v, as Transformer Engine calls it."""

        def __init__(self, config: Any, *_: Any, **__: Any) -> None:
            super().__init__()

        def forward(self, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> Any:
            q, k, v = (tensor.contiguous().permute(1, 2, 0, 3) for tensor in (query, key, value))
            repeat = q.shape[1] // k.shape[1]
            apply: Any = _Flash.apply
            out = apply(q, k, v, repeat)
            return out.permute(2, 0, 1, 3).reshape(query.shape[0], query.shape[1], -1)

    class _Flash(torch.autograd.Function):
        """What a grouped-query flash kernel saves: q, k, v, its output and the fp32 log-sum-exp."""

        @staticmethod
        def forward(ctx: Any, q: Any, k: Any, v: Any, repeat: int) -> Any:
            # The output has the memory order of the sequence-first layout, so the projection reads it as it is.
            out = q.permute(2, 0, 1, 3).new_empty((q.shape[2], q.shape[0], q.shape[1], v.shape[3])).permute(1, 2, 0, 3)
            lse = q.new_empty(q.shape[:3], dtype=torch.float32)
            ctx.save_for_backward(q, k, v, out, lse)
            return out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            q, k, v, _, _ = ctx.saved_tensors
            return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), None

    return _Attention


def _use_own_modules(spec: Any) -> None:
    norm, parts = _norm_class(), spec.submodules
    parts.input_layernorm = norm
    parts.pre_mlp_layernorm = norm
    attention = parts.self_attention.submodules
    attention.core_attention = _attention_class()
    for name in ("q_layernorm", "k_layernorm"):
        if getattr(attention, name, None) is not None and "Identity" not in str(getattr(attention, name)):
            setattr(attention, name, norm)


# --- shims -----------------------------------------------------------------------------------------------------------


class _Null:
    """Stands for a CUDA stream or event."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, _: str) -> Any:
        return lambda *_a, **_k: _Null()


def _install() -> None:
    """Make torch.cuda answer with the meta device, and Megatron's random states and routing with nothing."""
    import torch
    from megatron.core.tensor_parallel import random as states
    from megatron.core.transformer.moe import experts, moe_utils

    device = torch.device("meta")
    cuda: Any = torch.cuda
    cuda.current_device = lambda: device
    cuda.Stream = cuda.Event = _Null
    cuda.current_stream = cuda.default_stream = lambda *_a, **_k: _Null()
    cuda.stream = lambda _: contextlib.nullcontext()
    cuda.synchronize = cuda.set_device = lambda *_a, **_k: None
    anything: Any = torch.Tensor
    anything.cuda = lambda tensor, *_a, **_k: tensor.to(device)
    anything = torch.nn.Module
    anything.cuda = lambda module, *_a, **_k: module.to(device)

    @contextlib.contextmanager
    def fork(_tracker: Any, _name: str = "") -> Iterator[None]:
        yield

    anything = states
    anything.CudaRNGStatesTracker.fork = fork
    if not hasattr(moe_utils, "te_general_gemm"):
        moe_utils.te_general_gemm = None
    anything = experts.SequentialMLP
    anything.forward = _even_experts


def _even_experts(self: Any, hidden: Any, tokens_per_expert: Any, permuted_probs: Any) -> tuple[Any, None]:
    """SequentialMLP with every expert's share equal, which padding to capacity makes true."""
    import torch

    count = self.num_local_experts
    rows = hidden.shape[0] // count
    outputs = []
    for index, expert in enumerate(self.local_experts):
        part = slice(index * rows, (index + 1) * rows)
        outputs.append(expert(hidden[part], permuted_probs[part])[0])
    return torch.cat(outputs), None


def _initialise(shape: Shape) -> None:
    import torch
    from megatron.core import parallel_state
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=0, world_size=WORLD, store=FakeStore())
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=shape.tp,
        expert_model_parallel_size=shape.ep,
        expert_tensor_parallel_size=1,
        create_gloo_process_groups=False,
    )


def _shutdown() -> None:
    import torch
    from megatron.core import parallel_state

    parallel_state.destroy_model_parallel()
    torch.distributed.destroy_process_group()
