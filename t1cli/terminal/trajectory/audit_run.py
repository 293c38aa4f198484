"""The audit of a whole run: its saved rows, the ledger and the gap that its metrics tell, and what an engine says."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from t1cli.terminal.trajectory.audit import ACCOUNTS, Account
from t1cli.terminal.trajectory.audit_engine import RowGap, row_gap
from t1cli.terminal.trajectory.audit_rows import RowsAudit, audit_rollout
from t1cli.terminal.trajectory.row import TrainingRow
from t1cli.terminal.trajectory.store import load_rows

Series = Mapping[int, float]
"""Rollout or train step to value."""


@dataclass(frozen=True)
class Balance:
    """The token ledger of a run, from its metrics."""

    sampled: int
    accounts: Mapping[Account, int]
    open_rollouts: tuple[int, ...]
    """Rollouts whose accounts do not sum to what was sampled."""
    disagreeing_rollouts: tuple[int, ...]
    """Rollouts whose saved rows train another number of tokens than their metrics say."""

    @property
    def unaccounted(self) -> int:
        """Sampled tokens in no account."""
        return self.sampled - sum(self.accounts.values())


@dataclass(frozen=True)
class RunAudit:
    """All that an audit found."""

    rollouts: int
    rows: RowsAudit
    replay: bool
    """Whether routing is replayed in this run."""
    balance: Balance | None
    """None when the run has no metrics of it."""
    gap: Series
    """Mean |trainer − sampler log-prob| by step, as the trainer logged it."""
    engine: tuple[RowGap, ...] = ()

    @property
    def faults(self) -> list[str]:
        """What must not be, in words. That a trajectory is not strict throughout is none."""
        found = self.rows.faults(replay=self.replay)
        if self.balance and self.balance.open_rollouts:
            found.append(f"the token ledger does not close in rollouts {_listed(self.balance.open_rollouts)}")
        if self.balance and self.balance.disagreeing_rollouts:
            rollouts = _listed(self.balance.disagreeing_rollouts)
            found.append(f"saved rows and metrics disagree on the trained tokens of rollouts {rollouts}")
        return found

    @property
    def mean_gap(self) -> float | None:
        """Over all steps that logged one."""
        finite = [value for value in self.gap.values() if math.isfinite(value)]
        return statistics.fmean(finite) if finite else None


def audit_run(
    files: Sequence[Path],
    *,
    metrics: Mapping[str, Series],
    gap: Series,
    replay: bool,
    engine: str | None = None,
    scored_rows: int = 8,
) -> RunAudit:
    """Audit `rollout_N.npz` files. `metrics` holds the `terminal/…_tokens` series. Raises BadInput and CouldNotAsk."""
    total, in_loss = RowsAudit(), dict[int, int]()
    chosen: list[tuple[int, TrainingRow]] = []
    per_file = math.ceil(scored_rows / len(files)) if engine else 0
    for path in files:
        rollout, rows = int(path.stem.rpartition("_")[2]), load_rows(path)
        audit_rollout(total, rollout, rows)
        in_loss[rollout] = sum(int(row.loss_mask.sum()) for row in rows)
        chosen += [(rollout, row) for row in rows[:: max(1, len(rows) // max(per_file, 1))][:per_file]]
    spread = chosen[:: max(1, len(chosen) // scored_rows)][:scored_rows]
    return RunAudit(
        rollouts=len(files),
        rows=total,
        replay=replay,
        balance=_balance(metrics, in_loss),
        gap=gap,
        engine=tuple(row_gap(engine, rollout, row) for rollout, row in spread) if engine else (),
    )


def _balance(metrics: Mapping[str, Series], in_loss: Mapping[int, int]) -> Balance | None:
    sampled = metrics.get("terminal/sampled_tokens", {})
    if not sampled:
        return None
    by_account: dict[Account, Series] = {a: metrics.get(_metric_of(a), {}) for a in ACCOUNTS}
    trained = by_account["trained"]
    return Balance(
        sampled=_sum(sampled.values()),
        accounts={account: _sum(series.values()) for account, series in by_account.items() if series},
        open_rollouts=tuple(
            rollout
            for rollout, tokens in sampled.items()
            if tokens != sum(series.get(rollout, 0.0) for series in by_account.values())
        ),
        disagreeing_rollouts=tuple(r for r, tokens in in_loss.items() if r in trained and trained[r] != tokens),
    )


def _metric_of(account: Account) -> str:
    return "terminal/trained_tokens" if account == "trained" else f"terminal/masked_tokens/{account}"


def _sum(values: Iterable[float]) -> int:
    return int(math.fsum(value for value in values if math.isfinite(value)))


def _listed(rollouts: Sequence[int]) -> str:
    shown = ", ".join(str(rollout + 1) for rollout in rollouts[:5])  # ids begin at 0, people at 1
    return shown if len(rollouts) <= 5 else f"{shown} and {len(rollouts) - 5} more"
