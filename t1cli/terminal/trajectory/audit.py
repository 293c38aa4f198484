"""Recounts that do not trust the assembler: drift inside the loss region, and the account of every sampled token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from t1cli.terminal.trajectory.row import Ids, TrainingRow

Account = Literal["trained", "over_sampling", "infrastructure", "truncation", "filter", "repair", "staleness"]
"""Where a sampled token ends: in the loss, or masked with the reason."""
ACCOUNTS: tuple[Account, ...] = get_args(Account)


def drifted_in_loss(tokens: Ids, loss_mask: npt.NDArray[np.uint8], sampled: Sequence[tuple[int, Ids]]) -> int:
    """Positions that carry loss but do not hold the id that was sampled exactly there (catalogue F1).

    `sampled`: where in the row each turn's ids begin, and the ids as the engine sent them.
    """
    sampled_there = np.full(tokens.shape, -1, dtype=np.int64)
    for start, ids in sampled:
        sampled_there[start : start + len(ids)] = ids
    return int(np.count_nonzero((loss_mask == 1) & (sampled_there != tokens)))


def masked(row: TrainingRow, account: Account) -> TrainingRow:
    """The row with nothing in the loss, what it trained booked to an account."""
    trained = int(np.count_nonzero(row.loss_mask))
    accounts = {**row.audit.masked}
    if trained:
        accounts[account] = accounts.get(account, 0) + trained
    return replace(
        row,
        loss_mask=np.zeros_like(row.loss_mask),
        log_probs=np.zeros_like(row.log_probs),
        audit=replace(row.audit, trained_tokens=0, masked=accounts),
    )


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
