"""Trials as a run has recorded them, and which of them are worth reading."""

from __future__ import annotations

from collections.abc import Sequence

from t1cli.run.directory import RunDirectory
from t1cli.terminal.rollout.recorded_trials import RecordedTrial, read_trials

READ_ROLLOUTS = 400
"""Newest rollouts whose trials are read; a page about a thousand would not open."""


def newest_trials(run: RunDirectory) -> tuple[RecordedTrial, ...]:
    """Every trial of the newest rollouts, in the order in which they ended; what cannot be read is passed over."""
    return tuple(read_trials(run.trials, newest=READ_ROLLOUTS))


def worth_reading(trials: Sequence[RecordedTrial], limit: int = 12) -> tuple[tuple[str, RecordedTrial], ...]:
    """Why, and which: first and last solved, best, worst, longest, cut off, and one for each cause of loss."""
    scored = [trial for trial in trials if trial.reward is not None]
    wanted: list[tuple[str, RecordedTrial]] = []
    if scored:
        wanted += [
            ("highest reward", max(scored, key=lambda t: t.reward or 0.0)),
            ("lowest reward", min(scored, key=lambda t: t.reward or 0.0)),
            ("most turns", max(scored, key=lambda t: len(t.turns))),
            ("newest", scored[-1]),
            ("oldest", scored[0]),
        ]
        solved = [trial for trial in scored if trial.solved]
        if solved:
            wanted.append(("solved with the fewest tokens", min(solved, key=lambda t: t.sampled_tokens)))
        wanted += [(f"ended by {stop}", _first(scored, stop)) for stop in sorted({t.stop for t in scored} - {"done"})]
    for cause in sorted({t.cause for t in trials} - {""}):
        wanted.append((f"lost: {cause}", next(t for t in trials if t.cause == cause)))
    reasons: dict[str, list[str]] = {}
    for reason, trial in wanted:
        reasons.setdefault(trial.trial_id, []).append(reason)
    by_id = {trial.trial_id: trial for _, trial in wanted}
    return tuple((", ".join(why), by_id[trial_id]) for trial_id, why in reasons.items())[:limit]


def _first(trials: Sequence[RecordedTrial], stop: str) -> RecordedTrial:
    return next(trial for trial in trials if trial.stop == stop)
