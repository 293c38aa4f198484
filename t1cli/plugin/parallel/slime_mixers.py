"""slime's linear-attention modules as `gated_delta_net` reads them, and their forward pass on one rank."""

from __future__ import annotations

from math import gcd
from typing import Any

import torch.nn.functional as F
from megatron.core import mpu, tensor_parallel
from torch import Tensor

from t1cli.errors import Refused
from t1cli.plugin.parallel.delta_rule import ScanTokens
from t1cli.plugin.parallel.gated_delta_net import mix_part
from t1cli.plugin.parallel.kernels import SCAN, scan_by, unfit
from t1cli.plugin.parallel.line import Line
from t1cli.plugin.parallel.relayout import to_part, to_shard
from t1cli.plugin.parallel.slime_layers import Cuts

Rest = tuple[Tensor, Tensor, Tensor]
"""z (1, T, H, V), b and a (1, T, H)."""


def forward_split(attention: Any, mixer: SlimeMixer, hidden: Tensor, packed: Any, cuts: Cuts) -> Tensor:
    """(T / CP, 1, D) of this rank's zig-zag shard to the same; T / CP / TP under sequence parallelism."""
    group = mpu.get_context_parallel_group()
    ranks, rank = mpu.get_context_parallel_world_size(), mpu.get_context_parallel_rank()
    cut = cuts.of(packed.cu_seqlens_q, ranks, rank)
    if attention.args.sequence_parallel:
        # The layer is the same on every tensor-parallel rank, so each has the whole gradient: no reduction.
        hidden = tensor_parallel.gather_from_sequence_parallel_region(
            hidden, tensor_parallel_output_grad=False, group=mpu.get_tensor_model_parallel_group()
        )
    part = attention.input_layernorm(to_part(hidden.squeeze(1), cut.way, group))
    line = Line(group, cut.part.previous, cut.part.following)
    mixed = mix_part(mixer, part, cut.part, line, head_groups=gcd(ranks, mixer.num_heads))
    found = to_shard(mixed, cut.way, group).unsqueeze(1)
    if attention.args.sequence_parallel:
        found = tensor_parallel.scatter_to_sequence_parallel_region(found, group=mpu.get_tensor_model_parallel_group())
    return found


class SlimeMixer:
    """What both families share; a subclass projects."""

    def __init__(self, layer: Any) -> None:
        """Raises Refused when the layer's kernel cannot start from a state (`--qwen-gdn-backend`)."""
        problem = unfit(layer.chunk_gated_delta_rule, SCAN)
        if problem:
            raise Refused(
                f"slime's GatedDeltaNet kernel `{getattr(layer, 'gdn_backend', '?')}` cannot be split: {problem}",
                hint="--set 'slime_args.qwen-gdn-backend=fla'",
            )
        self._layer = layer
        self.conv_width: int = layer.conv_kernel_size
        self.num_heads: int = layer.num_v_heads

    def project(self, hidden: Tensor) -> tuple[Tensor, Rest]:
        raise NotImplementedError

    def gates(self, rest: Rest) -> tuple[Tensor, Tensor]:
        _, b, a = rest
        # In fp32: in fp16 the exponential of A_log may overflow.
        return -self._layer.A_log.float().exp() * F.softplus(a.float() + self._layer.dt_bias), b.sigmoid()

    def convolve(self, mixed: Tensor, cu_seqlens: Tensor) -> Tensor:
        found: Tensor = self._layer.conv1d(x=mixed, cu_seqlens=cu_seqlens)[0]
        return found

    def heads(self, mixed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        layer = self._layer
        q, k, v = (
            mixed[..., start : start + width].reshape(*mixed.shape[:2], width // dim, dim)
            for start, width, dim in (
                (0, layer.key_dim, layer.head_k_dim),
                (layer.key_dim, layer.key_dim, layer.head_k_dim),
                (2 * layer.key_dim, layer.value_dim, layer.head_v_dim),
            )
        )
        repeats = layer.num_v_heads // layer.num_k_heads
        return q.repeat_interleave(repeats, dim=2), k.repeat_interleave(repeats, dim=2), v

    def scan(self, tokens: ScanTokens, states: Tensor, cu_seqlens: Tensor) -> tuple[Tensor, Tensor]:
        whole = ScanTokens(*(tensor.contiguous() for tensor in tokens))
        return scan_by(self._layer.chunk_gated_delta_rule, whole, states, cu_seqlens)

    def finish(self, outputs: Tensor, rest: Rest) -> Tensor:
        z, layer = rest[0], self._layer
        normed = layer.norm(outputs.reshape(-1, layer.head_v_dim), z.reshape(-1, layer.head_v_dim))
        found: Tensor = layer.out_proj(normed.reshape(*outputs.shape[:2], layer.value_dim))
        return found


class Qwen35Mixer(SlimeMixer):
    """Qwen3.5: a projection each for queries, keys and values together, z, b and a."""

    def project(self, hidden: Tensor) -> tuple[Tensor, Rest]:
        layer = self._layer
        return layer.in_proj_qkv(hidden), (layer.in_proj_z(hidden), layer.in_proj_b(hidden), layer.in_proj_a(hidden))


class Qwen3NextMixer(SlimeMixer):
    """Qwen3-Next: two projections whose outputs are ordered by key head."""

    def project(self, hidden: Tensor) -> tuple[Tensor, Rest]:
        layer = self._layer
        ordered = layer.fix_query_key_value_ordering(layer.in_proj_qkvz(hidden), layer.in_proj_ba(hidden))
        q, k, v, z, b, a = ordered
        return _side_by_side(q, k, v), (z, b, a)


def _side_by_side(*heads: Tensor) -> Tensor:
    import torch

    return torch.cat([tensor.flatten(2) for tensor in heads], dim=-1)
