"""From logits to tokens: temperature, nucleus, one uniform number per token from the request's own stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class SamplingParams:
    """How one reply is sampled."""

    max_new_tokens: int
    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    stop_token_ids: tuple[int, ...] = ()
    seed: int | None = None
    """None: the engine draws one."""


@torch.inference_mode()
def sample(
    logits: Tensor, params: Sequence[SamplingParams], uniforms: Sequence[float]
) -> tuple[list[int], list[float]]:
    """One token and its log-prob per row of logits (n, V) fp32, by inverting the cumulative distribution at `uniforms`.

    Log-probs are those of softmax(logits / temperature) before the nucleus cut, as SGLang reports them; a greedy row
    reports temperature 1.
    """
    temperatures = torch.tensor([p.temperature if p.temperature > 0 else 1.0 for p in params]).unsqueeze(1)
    log_probs = (logits / temperatures).log_softmax(dim=-1)
    weights = log_probs.double().exp()
    if any(p.top_p < 1.0 for p in params):
        weights = _nucleus(weights, torch.tensor([p.top_p for p in params], dtype=torch.float64).unsqueeze(1))
    cumulative = weights.cumsum(dim=-1)
    marks = torch.tensor(uniforms, dtype=torch.float64).unsqueeze(1) * cumulative[:, -1:]
    tokens = torch.searchsorted(cumulative, marks, right=True).squeeze(1)
    greedy = torch.tensor([p.temperature == 0 for p in params])
    # A mark at the very end of the distribution must not land on a token of weight zero.
    tokens = torch.where(
        greedy | (weights.gather(1, tokens.clamp_max(weights.shape[1] - 1)[:, None])[:, 0] == 0),
        weights.argmax(dim=-1),
        tokens.clamp_max(weights.shape[1] - 1),
    )
    chosen = log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1)
    return tokens.tolist(), chosen.tolist()


def _nucleus(weights: Tensor, top_p: Tensor) -> Tensor:
    """Zero all but the fewest most likely tokens whose weights reach `top_p` (Holtzman et al. 2019)."""
    ordered, places = weights.sort(dim=-1, descending=True)
    outside = ordered.cumsum(dim=-1) - ordered >= top_p
    return weights.masked_fill(torch.zeros_like(outside).scatter(-1, places, outside), 0.0)
