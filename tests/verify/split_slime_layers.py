"""slime's own GatedDeltaNet layers, split by us, against the same layers on the whole stream; over gloo, on CPU.

    python tests/verify/split_slime_layers.py --ranks 2 [--slime CHECKOUT] [--tensor 2]

Without a checkout the double of slime is used. Kernels, which need a GPU, are replaced by plain torch ones under
flash-linear-attention's names; transformers by the few names that slime's files import.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from gloo_worlds import join, run_world
from torch import Tensor, nn

from t1cli.plugin.parallel.delta_rule import ScanTokens, gated_delta_rule
from t1cli.plugin.parallel.order import Layout, Rank, local_spans, positions
from t1cli.plugin.parallel.short_convolution import short_convolution

DOUBLE = Path(__file__).parents[1] / "contract/slime_double"
LENGTHS = (264, 40, 320)
CONFIG = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_conv_kernel_dim": 4,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "dtype": "float32",
    "layer_types": ["linear_attention"] * 3 + ["full_attention"],
}


class ShortConvolution(nn.Conv1d):
    """flash-linear-attention's module of this name in plain torch."""

    def __init__(self, hidden_size: int, kernel_size: int, bias: bool = False, **more: Any) -> None:
        super().__init__(hidden_size, hidden_size, kernel_size, groups=hidden_size, bias=bias)

    def forward(self, x: Tensor, cu_seqlens: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return short_convolution(x, self.weight, cu_seqlens), None


class FusedRMSNormGated(nn.Module):
    """flash-linear-attention's module of this name in plain torch."""

    def __init__(self, hidden_size: int, eps: float, **more: Any) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(hidden_size)), eps

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        return nn.functional.rms_norm(x, (x.shape[-1],), self.weight, self.eps) * nn.functional.silu(gate)


def chunk_gated_delta_rule(  # noqa: PLR0913 - flash-linear-attention's signature
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    cu_seqlens: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """flash-linear-attention's function of this name in plain torch."""
    assert use_qk_l2norm_in_kernel and cu_seqlens is not None and scale is None
    if initial_state is None:
        initial_state = torch.zeros(len(cu_seqlens) - 1, q.shape[2], q.shape[3], v.shape[3])
    outputs, states = gated_delta_rule(ScanTokens(q, k, v, g, beta), initial_state, cu_seqlens)
    return outputs, states if output_final_state else None


def install(checkout: Path) -> None:
    """slime's model files importable without a GPU, flash-linear-attention or transformers."""
    sys.path.insert(0, str(checkout))
    torch.cuda.current_device = lambda: torch.device("cpu")  # type: ignore[assignment,return-value]
    _module("fla.modules", ShortConvolution=ShortConvolution, FusedRMSNormGated=FusedRMSNormGated)
    _module("fla.ops.gated_delta_rule", chunk_gated_delta_rule=chunk_gated_delta_rule)
    _module("transformers", AutoConfig=SimpleNamespace(from_pretrained=_no_such_model))
    _module("transformers.activations", ACT2FN={"silu": nn.SiLU()})
    norm = {"Qwen3NextRMSNorm": nn.RMSNorm, "Qwen3NextAttention": nn.Identity}
    _module("transformers.models.qwen3_next.modeling_qwen3_next", **norm)
    import slime_plugins.models  # noqa: F401


def _module(name: str, **content: Any) -> None:
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        sys.modules.setdefault(".".join(parts[:end]), ModuleType(parts[end - 1]))
    vars(sys.modules[name]).update(content)


def _no_such_model(*_: Any, **__: Any) -> None:
    raise ValueError("only config.json is read here")


def attention_of(family: str, ranks: int, checkpoint: str, *, sequence_parallel: bool) -> nn.Module:
    """The first linear layer as slime's trainer builds it from `--spec t1cli.plugin.hooks …`."""
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
    from megatron.core.transformer import TransformerConfig

    from t1cli.plugin import hooks

    def local_layers(config: Any, use_transformer_engine: bool = True, **more: Any) -> Any:
        return get_gpt_decoder_block_spec(config, use_transformer_engine=False, **more)

    for name in ("qwen3_5", "qwen3_next"):
        module = __import__(f"slime_plugins.models.{name}", fromlist=["x"])
        if hasattr(module, "get_gpt_decoder_block_spec"):
            module.get_gpt_decoder_block_spec = local_layers
    config = TransformerConfig(num_layers=4, hidden_size=64, num_attention_heads=4)
    args = SimpleNamespace(
        hf_checkpoint=checkpoint,
        num_experts=None,
        context_parallel_size=ranks,
        sequence_parallel=sequence_parallel,
        qwen_gdn_backend="fla",
    )
    spec = getattr(hooks, f"{family}_spec")(args, config, None)
    kinds = [layer.submodules.self_attention.module.__name__ for layer in spec.layer_specs]
    assert kinds == ["SplitAttention"] * 3 + ["SelfAttention"], kinds
    torch.manual_seed(0)
    built: nn.Module = spec.layer_specs[0].submodules.self_attention.module(args, config, layer_number=1)
    return built


def compare(family: str, ranks: int, tensor: int) -> dict[str, Any]:
    """Errors of our split layer and of slime's gathered one, both against the layer on the whole stream."""
    from megatron.core import mpu

    rank, tensor_rank = mpu.get_context_parallel_rank(), mpu.get_tensor_model_parallel_rank()
    with tempfile.TemporaryDirectory() as checkpoint:
        (Path(checkpoint) / "config.json").write_text(json.dumps(CONFIG))
        attention = attention_of(family, ranks, checkpoint, sequence_parallel=tensor > 1)
    packed = SimpleNamespace(cu_seqlens_q=torch.tensor([0, *torch.tensor(LENGTHS).cumsum(0).tolist()]))
    hidden, upstream = (torch.randn(sum(LENGTHS), 1, 64) for _ in range(2))
    layout = Layout(ranks, tensor, sequence_parallel=tensor > 1, pad_multiple=1)
    held = positions(local_spans(LENGTHS, layout, Rank(rank, tensor_rank)))

    def whole(tokens: Tensor) -> Tensor:
        found: Tensor = attention.hf_forward(tokens.permute(1, 0, 2), packed).permute(1, 0, 2)
        return found

    wanted = _gradients(attention, whole, hidden, upstream)
    here = wanted[0][held], wanted[1][held], wanted[2]
    split = _gradients(attention, _forward(attention, packed), hidden[held], upstream[held])
    theirs = _gradients(attention, _forward(attention, packed, super_class=True), hidden[held], upstream[held])
    return {
        "case": f"slime {family}",
        "ranks": ranks,
        "tensor": tensor,
        "tokens": sum(LENGTHS),
        "output_equal": _largest(float(not torch.equal(split[0], here[0]))) == 0,
        "output_error": _largest(_error(split[0], here[0], wanted[0])),
        "input_gradient_error": _largest(_error(split[1], here[1], wanted[1])),
        "weight_gradient_error": _largest(_weights_error(split[2], wanted[2])),
        "slime_output_error": _largest(_error(theirs[0], here[0], wanted[0])),
        "slime_input_gradient_error": _largest(_error(theirs[1], here[1], wanted[1])),
        "slime_weight_gradient_error": _largest(_weights_error(theirs[2], wanted[2])),
    }


def _forward(attention: Any, packed: Any, *, super_class: bool = False) -> Callable[[Tensor], Tensor]:
    forward = super(type(attention), attention).forward if super_class else attention.forward
    return lambda hidden: forward(hidden, None, packed_seq_params=packed)[0]


def _gradients(
    attention: nn.Module, run: Callable[[Tensor], Tensor], hidden: Tensor, upstream: Tensor
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    attention.zero_grad()
    hidden = hidden.clone().requires_grad_()
    output = run(hidden)
    (output * upstream).sum().backward()
    assert hidden.grad is not None
    weights = {name: weight.grad.clone() for name, weight in attention.named_parameters() if weight.grad is not None}
    return output.detach(), hidden.grad, weights


def _weights_error(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> float:
    """The largest over weights, after the sum over context-parallel ranks that Megatron makes."""
    from megatron.core import mpu

    for weight in found.values():
        dist.all_reduce(weight, group=mpu.get_context_parallel_group())
    assert found.keys() == wanted.keys()
    return max(_error(found[name], wanted[name], wanted[name]) for name in wanted)


def _error(found: Tensor, wanted: Tensor, scale: Tensor) -> float:
    return float((found - wanted).abs().max() / scale.abs().max())


def _largest(figure: float) -> float:
    shared = torch.tensor(figure, dtype=torch.float64)
    dist.all_reduce(shared, op=dist.ReduceOp.MAX)
    return float(shared)


def work(options: argparse.Namespace) -> None:
    """One rank's process; rank 0 prints."""
    from megatron.core import mpu

    join(options.rank, options.ranks, options.meeting)
    install(options.slime)
    context = options.ranks // options.tensor
    mpu.initialize_model_parallel(tensor_model_parallel_size=options.tensor, context_parallel_size=context)
    lines = [compare(family, context, options.tensor) for family in ("qwen3_5", "qwen3_next")]
    if options.rank == 0:
        for line in lines:
            print(json.dumps(line), flush=True)
    dist.destroy_process_group()


def main() -> None:
    """Run one world, or be one rank of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--tensor", type=int, default=1, help="tensor-parallel ranks among them, sequence-parallel")
    parser.add_argument("--slime", type=Path, default=DOUBLE)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--meeting")
    options = parser.parse_args()
    if options.rank is not None:
        return work(options)
    arguments = ("--slime", str(options.slime), "--tensor", str(options.tensor))
    for line in run_world(__file__, *arguments, ranks=options.ranks):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
