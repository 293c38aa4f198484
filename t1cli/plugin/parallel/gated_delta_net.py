"""GatedDeltaNet over a context-parallel group: each rank computes its part of the packed stream and hands on what the
next rank's part depends on, the state of the scan and the last inputs of the short convolution.

Heads are independent, so the scan goes through them in groups: while a rank scans its second group, the next one scans
the first. Nothing is approximated: parts end on chunk borders (`parts`), states travel in the kernel's own precision,
and the result is that of the unsplit layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from t1cli.plugin.parallel.delta_rule import ScanTokens
from t1cli.plugin.parallel.kernels import convolve, scan
from t1cli.plugin.parallel.line import Line, from_previous, receive_state, send_state
from t1cli.plugin.parallel.parts import Part


class Mixer(Protocol):
    """The parts of a GatedDeltaNet layer that concern each token by itself, and its two kernels."""

    conv_width: int

    def project(self, hidden: Tensor) -> tuple[Tensor, Any]:
        """(1, T, D) to queries, keys and values side by side (1, T, C), and whatever `finish` and `gates` need."""

    def gates(self, rest: Any) -> tuple[Tensor, Tensor]:
        """g and beta, each (1, T, H)."""

    def convolve(self, mixed: Tensor, cu_seqlens: Tensor) -> Tensor:
        """The causal convolution and its activation over packed sequences, (1, T, C) to the same."""

    def heads(self, mixed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (1, T, H, dim) with as many heads as there are values."""

    def scan(self, tokens: ScanTokens, states: Tensor, cu_seqlens: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs (1, T, H, V) and the states (N, H, K, V) after each piece, from those before each."""

    def finish(self, outputs: Tensor, rest: Any) -> Tensor:
        """Norm, output gate and projection: (1, T, H, V) to (1, T, D)."""


def mix_part(layer: Mixer, hidden: Tensor, part: Part, line: Line, *, head_groups: int = 1) -> Tensor:
    """The layer over this rank's part: hidden (T, D) of the part's tokens to (T, D)."""
    mixed, rest = layer.project(hidden.unsqueeze(0))
    if part.num_tokens:
        mixed = convolve_part(layer, mixed, part, line)
    tokens = ScanTokens(*layer.heads(mixed), *layer.gates(rest))
    outputs = scan_part(layer, tokens, part, line, head_groups=head_groups) if part.num_tokens else tokens.v
    return layer.finish(outputs, rest).squeeze(0)


def convolve_part(layer: Mixer, mixed: Tensor, part: Part, line: Line) -> Tensor:
    """The short convolution, with the tokens before the part in front of it; (1, T, C) to the same."""
    reach = layer.conv_width - 1
    tail = from_previous(line, _last(mixed, reach))
    # Without a predecessor the tail is a sequence of its own, of zeros: its node must not drop out of the graph.
    first = [0] if part.previous is not None else [0, reach]
    bounds = [*first, *(bound + reach for bound in part.bounds[1:])]
    return layer.convolve(torch.cat((tail, mixed), dim=1), _bounds(bounds, mixed.device))[:, reach:]


def scan_part(layer: Mixer, tokens: ScanTokens, part: Part, line: Line, *, head_groups: int = 1) -> Tensor:
    """The scan over the part from the previous rank's state, (1, T, H, V)."""
    cu_seqlens = _bounds(part.bounds, tokens.q.device)
    groups = zip(*(tensor.chunk(head_groups, dim=2) for tensor in tokens), strict=True)
    return torch.cat([_scan_heads(layer, ScanTokens(*group), line, cu_seqlens) for group in groups], dim=2)


def _scan_heads(layer: Mixer, tokens: ScanTokens, line: Line, cu_seqlens: Tensor) -> Tensor:
    q, v = tokens.q, tokens.v
    first = receive_state(line, (1, q.shape[2], q.shape[3], v.shape[3]), q)
    others = first.new_zeros(len(cu_seqlens) - 2, *first.shape[1:])
    outputs, states = layer.scan(tokens, torch.cat((first, others)), cu_seqlens)
    return send_state(line, states[-1:], outputs)


def _last(mixed: Tensor, count: int) -> Tensor:
    """(1, count, C): the last tokens, zeros in front of fewer."""
    return F.pad(mixed, (0, 0, max(0, count - mixed.shape[1]), 0))[:, -count:]


def _bounds(bounds: Any, device: torch.device) -> Tensor:
    return torch.tensor(bounds, dtype=torch.int32, device=device)


@dataclass(frozen=True)
class GatedDeltaNetSizes:
    """The numbers that shape a layer, in the words of a Hugging Face config."""

    hidden_size: int
    num_key_heads: int
    num_value_heads: int
    key_head_dim: int
    value_head_dim: int
    conv_kernel_dim: int = 4
    norm_epsilon: float = 1e-6

    @property
    def key_width(self) -> int:
        return self.num_key_heads * self.key_head_dim

    @property
    def value_width(self) -> int:
        return self.num_value_heads * self.value_head_dim


class GatedDeltaNet(nn.Module):
    """One layer in plain torch with Qwen3.5's parameters by their names; without a line it is the unsplit layer."""

    def __init__(self, sizes: GatedDeltaNetSizes) -> None:
        super().__init__()
        self.sizes, self.conv_width = sizes, sizes.conv_kernel_dim
        channels = 2 * sizes.key_width + sizes.value_width
        self.in_proj_qkv = nn.Linear(sizes.hidden_size, channels, bias=False)
        self.in_proj_z = nn.Linear(sizes.hidden_size, sizes.value_width, bias=False)
        self.in_proj_b = nn.Linear(sizes.hidden_size, sizes.num_value_heads, bias=False)
        self.in_proj_a = nn.Linear(sizes.hidden_size, sizes.num_value_heads, bias=False)
        self.conv1d = nn.Conv1d(channels, channels, sizes.conv_kernel_dim, groups=channels, bias=False)
        self.dt_bias = nn.Parameter(torch.ones(sizes.num_value_heads))
        self.A_log = nn.Parameter(torch.empty(sizes.num_value_heads).uniform_(1, 16).log())
        self.norm = nn.Parameter(torch.ones(sizes.value_head_dim))
        self.out_proj = nn.Linear(sizes.value_width, sizes.hidden_size, bias=False)

    def forward(self, hidden: Tensor, part: Part, line: Line, *, head_groups: int = 1) -> Tensor:
        """(T, D) of the part's tokens to (T, D)."""
        return mix_part(self, hidden, part, line, head_groups=head_groups)

    def project(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return self.in_proj_qkv(hidden), hidden

    def gates(self, rest: Tensor) -> tuple[Tensor, Tensor]:
        """g = -exp(A) softplus(a + dt) and beta = sigmoid(b) (arXiv 2412.06464, section 3.4, as Mamba-2's decay)."""
        step = F.softplus(self.in_proj_a(rest).float() + self.dt_bias)
        return -self.A_log.float().exp() * step, self.in_proj_b(rest).sigmoid()

    def convolve(self, mixed: Tensor, cu_seqlens: Tensor) -> Tensor:
        return convolve(mixed, self.conv1d.weight, cu_seqlens)

    def heads(self, mixed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        sizes = self.sizes
        repeats = sizes.num_value_heads // sizes.num_key_heads
        q, k = (
            _by_head(x, sizes.key_head_dim).repeat_interleave(repeats, dim=2)
            for x in mixed[..., : 2 * sizes.key_width].chunk(2, dim=-1)
        )
        return q, k, _by_head(mixed[..., 2 * sizes.key_width :], sizes.value_head_dim)

    def scan(self, tokens: ScanTokens, states: Tensor, cu_seqlens: Tensor) -> tuple[Tensor, Tensor]:
        return scan(tokens, states, cu_seqlens)

    def finish(self, outputs: Tensor, rest: Tensor) -> Tensor:
        gate = _by_head(self.in_proj_z(rest), self.sizes.value_head_dim)
        normed = F.rms_norm(outputs, (outputs.shape[-1],), self.norm, self.sizes.norm_epsilon)
        mixed: Tensor = self.out_proj((normed * F.silu(gate)).flatten(-2))
        return mixed


def _by_head(x: Tensor, dim: int) -> Tensor:
    return x.reshape(*x.shape[:-1], x.shape[-1] // dim, dim)
