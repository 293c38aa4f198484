"""Recounts that do not trust the assembler: drift inside the loss region, and the account of every sampled token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from t1cli.terminal.trajectory.row import Turn

Account = Literal["trained", "over_sampling", "infrastructure", "truncation", "filter", "repair", "staleness"]
"""Where a sampled token ends: in the loss, or masked with the reason."""


def drifted_in_loss(tokens: npt.NDArray[np.int32], loss_mask: npt.NDArray[np.uint8], turns: Sequence[Turn]) -> int:
    """Positions that carry loss but do not hold the id that a turn sampled exactly there (catalogue F1)."""
    sampled_there = np.full(tokens.shape, -1, dtype=np.int64)
    for turn in turns:
        start = len(turn.prompt_ids)
        sampled_there[start : start + len(turn.sampled_ids)] = turn.sampled_ids
    return int(np.count_nonzero((loss_mask == 1) & (sampled_there != tokens)))


@dataclass
class TokenLedger:
    """Every token the engine sampled, in exactly one account."""

    sampled: int = 0
    """Counted where the engine's replies arrive, independently of what becomes of them."""
    accounts: dict[Account, int] = field(default_factory=dict)

    def book(self, account: Account, tokens: int) -> None:
        """Put tokens into an account."""
        if tokens:
            self.accounts[account] = self.accounts.get(account, 0) + tokens

    @property
    def unaccounted(self) -> int:
        """Sampled tokens in no account; anything but 0 is a bug of ours."""
        return self.sampled - sum(self.accounts.values())
