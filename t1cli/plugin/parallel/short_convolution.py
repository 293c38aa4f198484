"""The short causal convolution in front of the gated delta rule, in plain torch: depthwise, with SiLU, per sequence."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def short_convolution(x: Tensor, weight: Tensor, cu_seqlens: Tensor) -> Tensor:
    """(1, T, D) to the same: y_t = silu(Σ_j w_j x_{t-W+1+j}), and no token looks back beyond its sequence's start.

    weight (D, 1, W) as of a depthwise nn.Conv1d, cu_seqlens (N + 1,).
    """
    width, tokens = weight.shape[-1], x.shape[1]
    starts, ends = cu_seqlens[:-1].long(), cu_seqlens[1:].long()
    age = torch.arange(tokens, device=x.device) - torch.repeat_interleave(starts, ends - starts)
    padded = F.pad(x[0], (0, 0, width - 1, 0))
    total = torch.zeros_like(x[0])
    for place in range(width):
        # One product and one sum per tap: the same arithmetic for a token wherever the stream is cut.
        seen = (age >= width - 1 - place).unsqueeze(-1)
        total = total + padded[place : place + tokens] * weight[:, 0, place] * seen
    return F.silu(total).unsqueeze(0)
