"""An audit of saved rows that trusts nothing but the checksums taken when the replies arrived."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from t1cli.terminal.trajectory.row import RELATIONS, TrainingRow, TurnRecord

REPORT_ALIGNED: Final = 0.9739
REPORT_RETOKENIZED: Final = 0.0261
REPORT_DRIFT: Final = 0.0
"""The T1 report's offline audit of 1,402 samples (section 05): positions bit-aligned, re-tokenised or placeholders, and
drifted inside the loss region."""
_MOST_TURNS: Final = 50
"""Turns that are named one by one."""


@dataclass(frozen=True)
class Blamed:
    """One turn whose prompt did not continue the history exactly, and why."""

    rollout: int
    trial_id: str
    turn: int
    relation: str
    rule: str
    cell: tuple[int, int] | None
    retokenized: int


@dataclass
class RowsAudit:
    """Sums over rows."""

    rows: int = 0
    trials: int = 0
    all_strict_trials: int = 0
    """Trials with strict turns only. No gate: long trials through a text harness have hardly any."""
    turns: int = 0
    relations: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RELATIONS, 0))
    tokens: int = 0
    retokenized_tokens: int = 0
    """Positions that a later turn of their row was sampled under as other ids."""
    placeholder_rows: int = 0
    loss_tokens: int = 0
    drifted_tokens: int = 0
    """In the loss, but not what the engine sampled there."""
    routed_loss_tokens: int = 0
    rows_without_routing: int = 0
    unequal_lengths: int = 0
    rows_without_proof: int = 0
    """Saved without a record of their turns."""
    ties: int = 0
    rules: Counter[str] = field(default_factory=Counter)
    """Turns by what kept them from being strict."""
    blamed: list[Blamed] = field(default_factory=list)
    """The first of those turns."""

    @property
    def aligned(self) -> float:
        """Share of positions that every later turn of their row was sampled under, bit for bit."""
        return 1.0 - (self.retokenized_tokens + self.placeholder_rows) / self.tokens if self.tokens else 1.0

    @property
    def drift(self) -> float:
        """Share of loss tokens that are not what the engine sampled."""
        return self.drifted_tokens / self.loss_tokens if self.loss_tokens else 0.0

    def faults(self, *, replay: bool) -> list[str]:
        """What must not be, in words; empty when all is well."""
        found = {
            f"{self.drifted_tokens} tokens in the loss are not what the engine sampled": self.drifted_tokens,
            f"{self.unequal_lengths} rows differ in length from their mask, log-probs or routing": self.unequal_lengths,
            f"{self.rows_without_routing} rows have no routing, and it is replayed": self.rows_without_routing * replay,
        }
        return [what for what, count in found.items() if count]


def audit_rollout(total: RowsAudit, rollout: int, rows: Iterable[TrainingRow]) -> None:
    """Add the rows of one rollout."""
    strict_by_trial: dict[str, bool] = {}
    for row in rows:
        _add(total, row)
        for record in row.audit.records:
            _add_turn(total, rollout, row, record)
        all_strict = all(record.relation == "strict" for record in row.audit.records)
        strict_by_trial[row.trial_id] = strict_by_trial.get(row.trial_id, True) and all_strict
    total.trials += len(strict_by_trial)
    total.all_strict_trials += sum(strict_by_trial.values())


def _add(total: RowsAudit, row: TrainingRow) -> None:
    in_loss = int(np.count_nonzero(row.loss_mask))
    total.rows += 1
    total.turns += row.audit.turns
    total.tokens += len(row.tokens)
    total.retokenized_tokens += row.audit.retokenized_tokens
    total.placeholder_rows += row.audit.placeholder_rows
    total.ties += row.audit.ties
    total.loss_tokens += in_loss
    total.unequal_lengths += not _equal_lengths(row)
    total.rows_without_routing += row.routed_experts is None
    total.routed_loss_tokens += in_loss if row.routed_experts is not None else 0
    if row.audit.records:
        total.drifted_tokens += drifted_tokens(row)
    else:
        total.rows_without_proof += 1


def _add_turn(total: RowsAudit, rollout: int, row: TrainingRow, record: TurnRecord) -> None:
    total.relations[record.relation] += 1
    if record.relation == "strict":
        return
    total.rules[record.rule] += 1
    if len(total.blamed) < _MOST_TURNS:
        total.blamed.append(
            Blamed(rollout, row.trial_id, record.turn, record.relation, record.rule, record.cell, record.retokenized)
        )


def drifted_tokens(row: TrainingRow) -> int:
    """Loss tokens outside every turn's reply, and those of replies whose ids are not the ones that arrived."""
    in_loss = np.asarray(row.loss_mask) == 1
    proven = np.zeros(len(row.tokens), dtype=np.bool_)
    for record in row.audit.records:
        ids = np.ascontiguousarray(row.tokens[record.start : record.start + record.sampled], dtype="<i4")
        proven[record.start : record.start + record.sampled] = zlib.crc32(ids.tobytes()) == record.checksum
    return int(np.count_nonzero(in_loss[: len(proven)] & ~proven[: len(in_loss)]))


def _equal_lengths(row: TrainingRow) -> bool:
    routed = len(row.tokens) - 1 if row.routed_experts is None else len(row.routed_experts)
    return len({len(row.tokens), len(row.loss_mask), len(row.log_probs), routed + 1}) == 1
