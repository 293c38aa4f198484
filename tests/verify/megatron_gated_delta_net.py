"""Our split GatedDeltaNet against Megatron-core's own module with the same weights, over gloo, on CPU.

    python tests/verify/megatron_gated_delta_net.py --ranks 2

A Megatron-core whose module knows context parallelism (above 0.16) runs split as well; an older one runs whole on every
rank. Its torch path (deterministic mode) takes one sequence.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import sys
import typing
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from gloo_worlds import join, run_world
from torch import Tensor, nn

from t1cli.plugin.parallel.gated_delta_net import GatedDeltaNet, GatedDeltaNetSizes
from t1cli.plugin.parallel.line import Line
from t1cli.plugin.parallel.order import Layout, Rank, local_spans, positions
from t1cli.plugin.parallel.parts import cut_stream, exchange
from t1cli.plugin.parallel.relayout import to_part, to_shard

TOKENS = 512
SIZES = GatedDeltaNetSizes(hidden_size=64, num_key_heads=2, num_value_heads=4, key_head_dim=32, value_head_dim=32)


class Norm(nn.Module):
    """RMSNorm as Megatron builds one."""

    def __init__(self, config: Any, hidden_size: int, eps: float = 1e-6, **more: Any) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(hidden_size)), eps

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.rms_norm(x, x.shape[-1:], self.weight, self.eps)


def l2norm(x: Tensor, **more: Any) -> Tensor:
    """flash-linear-attention's function of this name in plain torch."""
    return x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()


def make_importable() -> None:
    """What a Megatron-core for a newer Python and a GPU wants to be there."""
    from unittest.mock import MagicMock

    from torch.utils._triton import has_triton_package

    if not hasattr(typing, "override"):
        typing.override = lambda function: function  # type: ignore[attr-defined]
    if importlib.util.find_spec("triton") is None:
        has_triton_package()  # remembered: torch must not take the stand-in for a compiler
        for name in ("triton", "triton.language"):
            sys.modules[name] = MagicMock(__spec__=None, __version__="3.4.0")


def megatron_module() -> ModuleType:
    """Megatron's file, made to run without a GPU and without flash-linear-attention."""
    torch.cuda.current_device = lambda: torch.device("cpu")  # type: ignore[assignment,return-value]
    from megatron.core.tensor_parallel import random

    random.CudaRNGStatesTracker.fork = lambda self, name="": contextlib.nullcontext()
    module = importlib.import_module("megatron.core.ssm.gated_delta_net")
    for name in ("megatron.core.ssm.gated_delta_net", "megatron.core.ssm.gated_delta_net.common",
                 "megatron.core.ssm.gated_delta_net.gdn"):  # fmt: skip
        if name in sys.modules:
            vars(sys.modules[name]).update(HAVE_FLA=True, l2norm=l2norm)
    return module


def build() -> tuple[nn.Module, GatedDeltaNet]:
    """Megatron's layer, and ours with its weights."""
    from megatron.core.process_groups_config import ProcessGroupCollection
    from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear
    from megatron.core.transformer import TransformerConfig

    module = megatron_module()
    config = TransformerConfig(
        num_layers=1,
        hidden_size=SIZES.hidden_size,
        num_attention_heads=4,
        linear_conv_kernel_dim=SIZES.conv_kernel_dim,
        linear_key_head_dim=SIZES.key_head_dim,
        linear_value_head_dim=SIZES.value_head_dim,
        linear_num_key_heads=SIZES.num_key_heads,
        linear_num_value_heads=SIZES.num_value_heads,
        activation_func=nn.functional.silu,
        deterministic_mode=True,
        use_cpu_initialization=True,
        layernorm_epsilon=SIZES.norm_epsilon,
        context_parallel_size=dist.get_world_size(),
    )
    parts = module.GatedDeltaNetSubmodules(in_proj=ColumnParallelLinear, out_norm=Norm, out_proj=RowParallelLinear)
    groups = ProcessGroupCollection.use_mpu_process_groups()
    torch.manual_seed(0)
    theirs: nn.Module = module.GatedDeltaNet(config, parts, layer_number=1, pg_collection=groups)
    return theirs, _with_weights_of(theirs)


def _with_weights_of(theirs: Any) -> GatedDeltaNet:
    ours, width, values = GatedDeltaNet(SIZES), SIZES.key_width, SIZES.value_width
    heads = SIZES.num_value_heads
    sections = [2 * width + values, values, heads, heads]
    with torch.no_grad():
        names = ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")
        for name, rows in zip(names, theirs.in_proj.weight.split(sections), strict=True):
            getattr(ours, name).weight.copy_(rows)
        ours.conv1d.weight.copy_(theirs.conv1d.weight)
        ours.dt_bias.copy_(theirs.dt_bias)
        ours.A_log.copy_(theirs.A_log)
        ours.norm.copy_(theirs.out_norm.weight)
        ours.out_proj.weight.copy_(theirs.out_proj.weight)
    return ours


def compare(rank: int, ranks: int) -> dict[str, Any]:
    """Largest differences over all ranks, relative to the largest value of Megatron's tensor."""
    import megatron.core

    theirs, ours = build()
    splits = hasattr(theirs, "cp_size")
    torch.manual_seed(1)
    hidden, upstream = torch.randn(TOKENS, SIZES.hidden_size), torch.randn(TOKENS, SIZES.hidden_size)
    held = positions(local_spans([TOKENS], Layout(ranks, pad_multiple=1), Rank(rank)))
    parts = cut_stream([TOKENS], ranks)
    way, part = exchange([TOKENS], parts, rank), parts[rank]
    line = Line(None, part.previous, part.following)

    def megatrons(tokens: Tensor) -> Tensor:
        found: Tensor = theirs(tokens.unsqueeze(1), None)[0].squeeze(1)
        return found

    if splits:
        wanted, wanted_grad = _gradient(megatrons, hidden[held], upstream[held])
    else:
        wanted, wanted_grad = (tensor[held] for tensor in _gradient(megatrons, hidden, upstream))
    found, grad = _gradient(
        lambda tokens: to_shard(ours(to_part(tokens, way), part, line), way), hidden[held], upstream[held]
    )
    return {
        "case": f"megatron-core {megatron.core.__version__}, {'split by it too' if splits else 'whole'}",
        "ranks": ranks,
        "tokens": TOKENS,
        "output_error": _largest(found, wanted),
        "input_gradient_error": _largest(grad, wanted_grad),
    }


def _gradient(run: Any, hidden: Tensor, upstream: Tensor) -> tuple[Tensor, Tensor]:
    hidden = hidden.clone().requires_grad_()
    output = run(hidden)
    (output * upstream).sum().backward()
    assert hidden.grad is not None
    return output.detach(), hidden.grad


def _largest(found: Tensor, wanted: Tensor) -> float:
    figures = torch.stack([(found - wanted).abs().max(), wanted.abs().max()])
    dist.all_reduce(figures, op=dist.ReduceOp.MAX)
    return float(figures[0] / figures[1])


def work(options: argparse.Namespace) -> None:
    """One rank's process; rank 0 prints."""
    make_importable()
    from megatron.core import mpu

    join(options.rank, options.ranks, options.meeting)
    mpu.initialize_model_parallel(context_parallel_size=options.ranks)
    line = compare(options.rank, options.ranks)
    if options.rank == 0:
        print(json.dumps(line), flush=True)
    dist.destroy_process_group()


def main() -> None:
    """Run one world, or be one rank of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--meeting")
    options = parser.parse_args()
    if options.rank is not None:
        return work(options)
    for line in run_world(__file__, ranks=options.ranks):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
