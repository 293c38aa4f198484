"""Generalised advantage estimation over response tokens, the way slime does it."""

from __future__ import annotations

import torch
from torch import Tensor


def gae(rewards: Tensor, values: Tensor, response: Tensor, *, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """Advantages and returns, both (B, P) and 0 outside the response.

    rewards and values are (B, P) over predicting positions, response a (B, P) bool mask whose true cells are
    contiguous per row. The recursion runs over every response token, observations included; loss masks act later.
    delta_t = r_t + gamma * V_{t+1} - V_t, A_t = delta_t + gamma * lam * A_{t+1}, return_t = A_t + V_t, with V = 0
    after the last response token (Schulman et al. 2016, arXiv 1506.02438, eq. 16).
    """
    inside = response.to(values.dtype)
    values, rewards = values * inside, rewards * inside
    advantages = torch.zeros_like(values)
    next_value = torch.zeros_like(values[:, 0])
    next_advantage = torch.zeros_like(next_value)
    for position in range(values.shape[1] - 1, -1, -1):
        delta = rewards[:, position] + gamma * next_value - values[:, position]
        # Multiplying by the mask restarts the recursion at the right edge of each row's response.
        next_advantage = (delta + gamma * lam * next_advantage) * inside[:, position]
        next_value = values[:, position]
        advantages[:, position] = next_advantage
    return advantages, advantages + values


def rewards_at_end(rewards: Tensor, response: Tensor) -> Tensor:
    """(B,) scalar rewards placed on the last response position of each row, as (B, P)."""
    positions = torch.arange(response.shape[1]).expand_as(response)
    last = positions.masked_fill(~response, -1).amax(dim=1)
    if bool((last < 0).any()):
        raise ValueError("a row without response tokens has no place for its reward")
    return torch.zeros(response.shape, dtype=rewards.dtype).scatter(1, last[:, None], rewards[:, None])
