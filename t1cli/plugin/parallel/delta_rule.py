"""The gated delta rule in chunks, in plain torch: the reference for kernels, and what runs without them.

Token t of a head with key k, query q (K,), value v (V,), decay α = exp(g) and write strength β updates the state
S (K, V) and reads it (Yang, Kautz, Hatamizadeh 2024, "Gated Delta Networks", arXiv 2412.06464, equation 10):

    S_t = α_t (I - β_t k_t k_tᵀ) S_{t-1} + β_t k_t v_tᵀ        o_t = S_tᵀ q_t / √K

Within a chunk that starts from S, with γ_i = α_1 … α_i, the updates are those of one triangular system (the WY form of
Yang, Wang, Zhang, Shen, Kim 2024, arXiv 2406.06484, section 3.2, with decays as in 2412.06464, section 3.3):

    (I + A) [U W] = [βV, βγK],  A_ij = β_i γ_i/γ_j k_iᵀk_j for j < i        V' = U - W S
    O = γQ S + (γ_i/γ_j QKᵀ for j ≤ i) V'                                  S ← γ_C S + (γ_C/γ_j K)ᵀ V'

Shapes: T tokens of all sequences one after the other, N pieces of sequences, M chunks, C tokens of a chunk, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from t1cli.plugin.parallel.parts import CHUNK_TOKENS

NORM_EPSILON = 1e-6
"""Added to the sum of squares of a key or query, as flash-linear-attention's l2norm does."""


class ScanTokens(NamedTuple):
    """What the scan reads, for one packed stream."""

    q: Tensor
    """(1, T, H, K); normalised to unit length by the scan, as is k."""
    k: Tensor
    """(1, T, H, K)"""
    v: Tensor
    """(1, T, H, V)"""
    g: Tensor
    """(1, T, H): logarithm of the decay, not positive."""
    beta: Tensor
    """(1, T, H): strength of the write, 0 to 1."""


def gated_delta_rule(tokens: ScanTokens, states: Tensor, cu_seqlens: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs (1, T, H, V) in v's type and the states (N, H, K, V) after each piece, from those before each.

    cu_seqlens (N + 1,) bounds the pieces. Computed in fp32, or fp64 for inputs in fp64.
    """
    bounds = [int(bound) for bound in cu_seqlens.tolist()]
    wide = torch.promote_types(tokens.q.dtype, torch.float32)
    q, k, v, g, beta = (tensor[0].to(wide) for tensor in tokens)
    chunks = _Chunks.of(bounds, q.device)
    inside = _inside_chunks(chunks, ScanTokens(_unit(q) * q.shape[-1] ** -0.5, _unit(k), v, g, beta))
    outputs, final = _across_chunks(chunks, inside, states.to(wide))
    return chunks.tokens(outputs).unsqueeze(0).to(tokens.v.dtype), final


@dataclass(frozen=True)
class _Chunks:
    """The chunk grid of some pieces; the last chunk of a piece is filled up with tokens that change nothing."""

    index: Tensor
    """(M, C) int64: the token of each place, 0 where there is none."""
    real: Tensor
    """(M, C) bool."""
    per_piece: tuple[int, ...]
    """Chunks of each piece."""

    @classmethod
    def of(cls, bounds: Sequence[int], device: torch.device) -> _Chunks:
        spans = [(at, end) for start, end in pairwise(bounds) for at in range(start, end, CHUNK_TOKENS)]
        per_piece = tuple(-(-(end - start) // CHUNK_TOKENS) for start, end in pairwise(bounds))
        edges = torch.tensor(spans, dtype=torch.int64).reshape(-1, 2)
        index = edges[:, :1] + torch.arange(CHUNK_TOKENS)
        real = index < edges[:, 1:]
        return cls(index.where(real, index.new_zeros(())).to(device), real.to(device), per_piece)

    def places(self, tokens: Tensor) -> Tensor:
        """(T, H, …) to (M, H, C, …), zeros where there is no token."""
        found = tokens[self.index] * self.real.view(*self.real.shape, *[1] * (tokens.dim() - 1))
        return found.transpose(1, 2)

    def tokens(self, places: Tensor) -> Tensor:
        """(M, H, C, …) back to (T, H, …)."""
        return places.transpose(1, 2)[self.real]


@dataclass(frozen=True)
class _Inside:
    """What a chunk's tokens make of each other, before the state is known."""

    u: Tensor
    """(M, H, C, V)"""
    w: Tensor
    """(M, H, C, K)"""
    scores: Tensor
    """(M, H, C, C): what token i reads of token j ≤ i."""
    q: Tensor
    """(M, H, C, K), decayed from the chunk's start."""
    k: Tensor
    """(M, H, C, K), decayed to the chunk's end."""
    decay: Tensor
    """(M, H, 1, 1): decay over the whole chunk."""


def _inside_chunks(chunks: _Chunks, tokens: ScanTokens) -> _Inside:
    q, k, v, g, beta = (chunks.places(tensor) for tensor in tokens)
    log_decay = g.cumsum(-1)
    lower = torch.ones(CHUNK_TOKENS, CHUNK_TOKENS, dtype=torch.bool, device=q.device).tril()
    # Masked before the exponential: above the diagonal the exponents are positive and may overflow.
    between = (log_decay.unsqueeze(-1) - log_decay.unsqueeze(-2)).masked_fill(~lower, float("-inf")).exp()
    since_start, beta = log_decay.exp().unsqueeze(-1), beta.unsqueeze(-1)
    system = (k * beta) @ k.transpose(-1, -2) * between
    both = torch.cat((v * beta, k * beta * since_start), dim=-1)
    solved = torch.linalg.solve_triangular(system, both, upper=False, unitriangular=True)
    end = log_decay[..., -1:]
    return _Inside(
        u=solved[..., : v.shape[-1]],
        w=solved[..., v.shape[-1] :],
        scores=q @ k.transpose(-1, -2) * between,
        q=q * since_start,
        k=k * (end - log_decay).exp().unsqueeze(-1),
        decay=end.exp().unsqueeze(-1),
    )


def _across_chunks(chunks: _Chunks, inside: _Inside, states: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs (M, H, C, V) and the state after each piece (N, H, K, V)."""
    outputs, final = [], []
    for piece, (first, end) in enumerate(pairwise(accumulate(chunks.per_piece, initial=0))):
        state = states[piece]
        for chunk in range(first, end):
            written = inside.u[chunk] - inside.w[chunk] @ state
            outputs.append(inside.q[chunk] @ state + inside.scores[chunk] @ written)
            state = state * inside.decay[chunk] + inside.k[chunk].transpose(-1, -2) @ written
        final.append(state)
    return torch.stack(outputs) if outputs else inside.u, torch.stack(final)


def _unit(x: Tensor) -> Tensor:
    return x * (x.square().sum(-1, keepdim=True) + NORM_EPSILON).rsqrt()
