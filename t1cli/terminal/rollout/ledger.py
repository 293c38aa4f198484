"""The token balance of one rollout: what was sampled, and the one account each token ended in.

Nothing is booked as what is left over, so that a token the assembly lost is missing from the balance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from t1cli.terminal.rollout.outcome import Boundary
from t1cli.terminal.rollout.result import TrialResult
from t1cli.terminal.trajectory.audit import ACCOUNTS, Account, TokenLedger


def ledger_of(
    ended: Sequence[TrialResult],
    accepted: Sequence[TrialResult],
    *,
    sampled_tokens: int,
    dropped: Mapping[int, Account] | None = None,
) -> TokenLedger:
    """Books all tokens of all trials of a rollout; `sampled_tokens` comes from the engine's side.

    `dropped`: group ids to the account of those that were dropped for another reason than being surplus.
    """
    ledger = TokenLedger(sampled=sampled_tokens)
    accepted_ids = {trial.plan.trial_id for trial in accepted}
    for trial in ended:
        if trial.plan.trial_id in accepted_ids:
            _book_rows(ledger, trial)
            # Cut off by the trial's deadline: sampled, but no reply that the policy finished.
            ledger.book("truncation", trial.lost_tokens - trial.held_tokens)
            ledger.book("over_sampling", trial.held_tokens)
        elif trial.outcome.scored or trial.outcome.boundary is Boundary.CANCELLED:
            account = (dropped or {}).get(trial.plan.group_id, "over_sampling")
            ledger.book(account, trial.sampled_tokens + trial.lost_tokens)
        else:
            ledger.book("infrastructure", trial.sampled_tokens + trial.lost_tokens)
    return ledger


def _book_rows(ledger: TokenLedger, trial: TrialResult) -> None:
    """What the rows train, and what they sampled and mask, each under its reason."""
    for row in trial.rows:
        ledger.book("trained", int(row.loss_mask.sum()))
        for account in ACCOUNTS:
            ledger.book(account, row.audit.masked.get(account, 0))
