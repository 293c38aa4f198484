"""What a run changed, in one sentence: from its first to its last rollouts, and how far that may be believed."""

from __future__ import annotations

from t1cli.run.summary import FirstLast, RunSummary

_CAVEAT = "on the tasks it trains on; only an evaluation tells about others"


def what_changed(summary: RunSummary) -> str:
    """Empty before there are two windows that differ."""
    name, values = _telling(summary)
    window = values.rollouts
    if values.first is None or values.last is None or summary.rollouts_done <= window:
        return ""
    overlap = ", which overlap" if summary.rollouts_done < 2 * window else ""
    first, last = f"{values.first:.3f}", f"{values.last:.3f}"
    if first == last:
        return f"{name} stayed at {first} (first and last {window} rollouts{overlap}), {_CAVEAT}"
    moved = "rose" if values.last > values.first else "fell"
    return f"{name} {moved} from {first} (first {window} rollouts) to {last} (last {window}{overlap}), {_CAVEAT}"


def _telling(summary: RunSummary) -> tuple[str, FirstLast]:
    """The share of checks passed means the same in every campaign; a reward is only what some log."""
    return ("reward", summary.reward) if summary.check_rate.first is None else ("check rate", summary.check_rate)
