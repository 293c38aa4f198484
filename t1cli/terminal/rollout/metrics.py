"""Metrics of one rollout: slime's own names, the terminal names of OpenClaw-RL's agent, and ours.

Population of `terminal/total_samples`: trials that ended by themselves, scored and accepted or lost to the
infrastructure (every lost attempt counts). Cancelled and surplus trials are counted apart.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import psutil

from t1cli.terminal.rollout.outcome import Boundary
from t1cli.terminal.rollout.result import TrialResult
from t1cli.terminal.rollout.signal import signal_shares
from t1cli.terminal.trajectory.audit import TokenLedger
from t1cli.terminal.trajectory.row import RELATIONS, TrainingRow

GIB: Final = 2**30


@dataclass(frozen=True)
class RolloutPopulation:
    """All that a rollout's metrics are computed from."""

    accepted: tuple[TrialResult, ...]
    ended: tuple[TrialResult, ...]
    rows: tuple[TrainingRow, ...]
    ledger: TokenLedger
    seconds: float
    held_tokens: tuple[int, ...] = ()
    """What every trial has sampled that goes on in the next rollout; in no other figure of this one."""

    @property
    def lost(self) -> list[TrialResult]:
        """Trials that the infrastructure lost."""
        return [t for t in self.ended if not t.outcome.scored and t.outcome.boundary is not Boundary.CANCELLED]

    @property
    def cancelled(self) -> list[TrialResult]:
        """Trials that were cancelled, and those that finished after enough others had."""
        kept = {t.plan.trial_id for t in self.accepted}
        return [
            t
            for t in self.ended
            if t.outcome.boundary is Boundary.CANCELLED or (t.outcome.scored and t.plan.trial_id not in kept)
        ]


def rollout_metrics(population: RolloutPopulation) -> dict[str, float]:
    """One flat mapping; a name that has no population in this rollout is absent, never 0."""
    return {
        **_slime_names(population),
        **_terminal_statuses(population),
        **_rewards(population.accepted),
        **_tokens(population),
        **_summaries(population.accepted),
        **_failures(population.lost),
        **_selection(population),
        **_groups(population.accepted),
        **signal_shares(population.accepted),
        **_times(population),
        "host/memory_available_gib": psutil.virtual_memory().available / GIB,
    }


def _slime_names(population: RolloutPopulation) -> dict[str, float]:
    rows, accepted = population.rows, population.accepted
    effective = [int(row.loss_mask.sum()) for row in rows]
    return {
        **_mean("rollout/rewards", [row.reward for row in rows]),
        **_mean("rollout/raw_reward", [row.reward for row in rows]),
        **_mean("rollout/truncated", [float(t.outcome.stop.truncated) for t in accepted]),
        **_mean("rollout/truncated_ratio", [float(t.outcome.stop.truncated) for t in accepted]),
        **_mean("rollout/response_lengths", [len(row.tokens) - row.response_start for row in rows]),
        **_mean("rollout/total_lengths", [len(row.tokens) for row in rows]),
        **_mean("rollout/response_len/mean", effective),
        **({"rollout/response_len/median": float(statistics.median(effective))} if effective else {}),
        **({"rollout/response_len/max": float(max(effective))} if effective else {}),
        **({"rollout/response_len/min": float(min(effective))} if effective else {}),
        **_mean("rollout/round_number", [t.turns for t in accepted]),
        "perf/rollout_time": population.seconds,
        **(
            {
                "perf/longest_sample_tokens_per_sec": max(len(r.tokens) - r.response_start for r in rows)
                / population.seconds
            }
            if rows and population.seconds
            else {}
        ),
    }


def _terminal_statuses(population: RolloutPopulation) -> dict[str, float]:
    accepted, lost = population.accepted, population.lost
    truncated = sum(t.outcome.stop.truncated for t in accepted)
    total = len(accepted) + len(lost)
    return {
        "terminal/total_samples": float(total),
        "terminal/completed": float(len(accepted) - truncated),
        "terminal/truncated": float(truncated),
        "terminal/failed": float(len(lost)),
        "terminal/aborted": 0.0,
        **(
            {"terminal/failed_ratio": len(lost) / total, "terminal/non_trainable_ratio": len(lost) / total}
            if total
            else {}
        ),
        **_counts("terminal/stop", (t.outcome.stop.value for t in accepted)),
    }


def _rewards(accepted: Sequence[TrialResult]) -> dict[str, float]:
    """Over what was scored, and how much of it binary fallbacks gave (catalogue R12)."""
    rewards = [t.reward for t in accepted if t.reward]
    verdicts = [t.verdict for t in accepted if t.verdict]
    values = [reward.value for reward in rewards]
    positive = sum(abs(value) for value in values)
    from_fallback = sum(abs(reward.value) for reward in rewards if reward.source == "fallback")
    return {
        **_mean("terminal/reward_mean", values),
        **({"terminal/reward_min": min(values), "terminal/reward_max": max(values)} if values else {}),
        **({"terminal/reward_std": statistics.pstdev(values)} if values else {}),
        **_mean("terminal/accuracy", [reward.accuracy for reward in rewards]),
        **_mean("terminal/check_rate", [reward.accuracy for reward in rewards]),
        **_mean("terminal/solved_rate", [reward.binary for reward in rewards]),
        **_mean("terminal/checks_passed_mean", [verdict.passed for verdict in verdicts]),
        **({"terminal/fallback_share": from_fallback / positive if positive else 0.0} if rewards else {}),
        **_mean("terminal/fallback_trials_share", [float(reward.source == "fallback") for reward in rewards]),
        **_counts("terminal/ctrf", (verdict.ctrf for verdict in verdicts)),
    }


def _tokens(population: RolloutPopulation) -> dict[str, float]:
    ledger = population.ledger
    versions = [version for row in population.rows for version in row.weight_versions]
    return {
        "terminal/sampled_tokens": float(ledger.sampled),
        "terminal/trained_tokens": float(ledger.accounts.get("trained", 0)),
        **{f"terminal/masked_tokens/{a}": float(n) for a, n in ledger.accounts.items() if a != "trained"},
        "terminal/unaccounted_tokens": float(ledger.unaccounted),
        "terminal/drifted_in_loss": float(sum(row.audit.drifted_in_loss for row in population.rows)),
        "terminal/rows": float(len(population.rows)),
        **_mean("terminal/strict_share", [row.audit.strict / row.audit.turns for row in population.rows]),
        **_fidelity(population.rows),
        **(
            {"terminal/weight_version_min": float(min(versions)), "terminal/weight_version_max": float(max(versions))}
            if versions
            else {}
        ),
        **(
            {"terminal/rows_of_several_versions": float(sum(len(set(r.weight_versions)) > 1 for r in population.rows))}
            if len(set(versions)) > 1
            else {}
        ),
        **_mean("terminal/turns_mean", [t.turns for t in population.accepted]),
    }


def _fidelity(rows: Sequence[TrainingRow]) -> dict[str, float]:
    """How turns continued the history before them, and what the later ones were sampled under as other ids."""
    tokens = sum(len(row.tokens) for row in rows)
    counts = {name: sum(row.audit.count(name) for row in rows) for name in RELATIONS}
    return {
        **{f"terminal/relation/{name}": float(count) for name, count in counts.items() if rows},
        **({"terminal/retokenized_share": sum(r.audit.retokenized_tokens for r in rows) / tokens} if tokens else {}),
        "terminal/placeholder_rows": float(sum(row.audit.placeholder_rows for row in rows)),
        "terminal/prefix_ties": float(sum(row.audit.ties for row in rows)),
    }


def _summaries(accepted: Sequence[TrialResult]) -> dict[str, float]:
    """What became of summaries: where many fall back, agents redo finished work (catalogue R9)."""
    counts = [t.summaries for t in accepted]
    tried, fallback = sum(c.tried for c in counts), sum(c.fallback for c in counts)
    if not tried:
        return {}
    return {
        "terminal/summary_tried": float(tried),
        "terminal/summary_full": float(sum(c.full for c in counts)),
        "terminal/summary_short": float(sum(c.short for c in counts)),
        "terminal/summary_fallback": float(fallback),
        "terminal/summary_fallback_ratio": fallback / tried,
    }


def _failures(lost: Sequence[TrialResult]) -> dict[str, float]:
    return {
        **_counts("terminal/failed_by_cause", (t.outcome.cause for t in lost)),
        **_counts("terminal/failed_by_boundary", (str(t.outcome.boundary) for t in lost)),
    }


def _selection(population: RolloutPopulation) -> dict[str, float]:
    """What over-sampling kept and cancelled, by family: accepting the first finished favours short trials.

    (catalogue S9)
    """
    accepted = Counter(t.family for t in population.accepted)
    cancelled = Counter(t.family for t in population.cancelled)
    launched = accepted + cancelled
    shares = {f: accepted[f] / accepted.total() - n / launched.total() for f, n in launched.items() if accepted.total()}
    # Cancelled because the batch was full: these ran at that moment, unlike those that had finished too late to count.
    live = sum(t.outcome.boundary is Boundary.CANCELLED for t in population.cancelled)
    return {
        "terminal/live_trials": float(live + len(population.held_tokens)),
        **_held(population.held_tokens),
        "terminal/cancelled": float(cancelled.total()),
        **{f"terminal/accepted/{family}": float(n) for family, n in accepted.items()},
        **{f"terminal/cancelled/{family}": float(n) for family, n in cancelled.items()},
        **{f"terminal/cancelled_share/{family}": cancelled[family] / n for family, n in launched.items()},
        **({"terminal/selection_bias": max(abs(share) for share in shares.values())} if shares else {}),
        **_cancelled_by_difficulty(population),
        **_mean("terminal/turns_mean_cancelled", [t.turns for t in population.cancelled]),
    }


def _held(tokens: Sequence[int]) -> dict[str, float]:
    return {"terminal/held_trials": float(len(tokens)), "terminal/held_tokens": float(sum(tokens))} if tokens else {}


def _cancelled_by_difficulty(population: RolloutPopulation) -> dict[str, float]:
    cancelled = Counter(t.plan.task.difficulty for t in population.cancelled)
    launched = cancelled + Counter(t.plan.task.difficulty for t in population.accepted)
    return {f"terminal/cancelled_share/difficulty_{name}": cancelled[name] / n for name, n in launched.items()}


def _groups(accepted: Sequence[TrialResult]) -> dict[str, float]:
    values_of: dict[int, list[float]] = {}
    for trial in accepted:
        if trial.reward:
            values_of.setdefault(trial.plan.group_id, []).append(trial.reward.value)
    varied = [len(set(values)) > 1 for values in values_of.values()]
    siblings = max((len(values) for values in values_of.values()), default=0)
    return {
        "terminal/groups": float(len(varied)),
        # One sample per prompt has no variance within a group; PPO's critic is the baseline there.
        **({"terminal/groups_with_variance": float(sum(varied))} if siblings > 1 else {}),
    }


def _times(population: RolloutPopulation) -> dict[str, float]:
    parts = sorted({part for t in population.accepted for part in t.seconds})
    return {
        "terminal/rollout_time": population.seconds,
        **{
            f"terminal/seconds/{part}_mean": statistics.fmean(t.seconds.get(part, 0.0) for t in population.accepted)
            for part in parts
        },
        "terminal/budget_shortened": float(sum(t.budget_shortened for t in population.accepted)),
        "terminal/close_problems": float(sum(bool(t.close_problem) for t in population.ended)),
    }


def _mean(name: str, values: Sequence[float]) -> dict[str, float]:
    return {name: statistics.fmean(values)} if values else {}


def _counts(prefix: str, names: Iterable[str]) -> dict[str, float]:
    return {f"{prefix}/{name}": float(count) for name, count in sorted(Counter(names).items())}
