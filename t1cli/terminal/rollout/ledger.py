"""The token balance of one rollout: what was sampled, and the one account each token ended in."""

from __future__ import annotations

from collections.abc import Sequence

from t1cli.terminal.rollout.outcome import Boundary
from t1cli.terminal.rollout.result import TrialResult
from t1cli.terminal.trajectory.audit import TokenLedger


def ledger_of(ended: Sequence[TrialResult], accepted: Sequence[TrialResult], *, sampled_tokens: int) -> TokenLedger:
    """Books all tokens of all trials of a rollout; `sampled_tokens` comes from the engine's side."""
    ledger = TokenLedger(sampled=sampled_tokens)
    accepted_ids = {trial.plan.trial_id for trial in accepted}
    for trial in ended:
        if trial.plan.trial_id in accepted_ids:
            trained_tokens = sum(int(row.loss_mask.sum()) for row in trial.rows)
            ledger.book("trained", trained_tokens)
            # Cut off by the trial's deadline: sampled, but no reply that the policy finished.
            ledger.book("truncation", trial.sampled_tokens - trained_tokens + trial.lost_tokens)
        elif trial.outcome.scored or trial.outcome.boundary is Boundary.CANCELLED:
            ledger.book("over_sampling", trial.sampled_tokens + trial.lost_tokens)
        else:
            ledger.book("infrastructure", trial.sampled_tokens + trial.lost_tokens)
    return ledger
