"""The `early_stop:` block of the Qwen3-8B postmortem, accepted as it is printed there.

It is not YAML as printed: in `threshold: > 0.7` the `>` opens a folded scalar. The pre-pass here puts such thresholds
in quotes, and leaves a quoted block as it is. Its readings, fixed by tests:

- `window: 30 rollout_steps` is the mean over the metric's last 30 points, not 30 breaches in a row;
- `> 0.7`, `< 0.05`: a number;
- `> rollout_batch_size * 0.9`: an expression over the spec's variables;
- `> 3× moving_avg(60-step prior)` (also `3x`, `3 *`): a multiple of the mean of the 60 points before the window;
- `severity: stop` needs no second sign ("any one of them ends the training process").
"""

from __future__ import annotations

import re
from typing import Any

from t1cli.errors import BadInput

_THRESHOLD = re.compile(r"^(?P<key>\s*(?:-\s+)?threshold:\s*)(?P<text>[<>][^#]*?)(?P<rest>\s*(?:#.*)?)$", re.MULTILINE)
_MULTIPLE = re.compile(r"(?P<factor>[0-9.]+)\s*[x×*]\s*moving_avg\(\s*(?P<points>\d+)\s*-?\s*steps?\s+prior\s*\)")
_WINDOW = re.compile(r"(?P<points>\d+)(?:\s+(?:rollout_)?steps?)?")
_KEYS = {"metric", "window", "threshold", "severity"}


def quoted(text: str) -> str:
    """The block as valid YAML: thresholds that begin with `<` or `>` in quotes."""
    return _THRESHOLD.sub(lambda found: f'{found["key"]}"{found["text"].rstrip()}"{found["rest"]}', text)


def as_pack(found: dict[str, Any], where: str) -> dict[str, Any]:
    """A parsed `early_stop:` block as a pack. Raises BadInput for a form that the block does not have."""
    rules = [_rule(entry, number, where) for number, entry in enumerate(found["early_stop"] or ())]
    return {
        "about": "the early_stop block of the Qwen3-8B postmortem, as printed",
        "derived": {"rollout/zero_std/sum": {"expression": 'sum("rollout/zero_std/count_*")', "needs": "rollout/*"}},
        "rules": rules,
    }


def _rule(entry: Any, number: int, where: str) -> dict[str, Any]:
    if not isinstance(entry, dict) or not {"metric", "threshold"} <= set(entry) <= _KEYS:
        raise BadInput(
            f"early_stop[{number}]: expected the keys {', '.join(sorted(_KEYS))}, found {entry!r}", where=where
        )
    window = _WINDOW.fullmatch(str(entry.get("window", 1)).strip())
    if window is None:
        raise BadInput(
            f"early_stop[{number}]: cannot read the window {entry['window']!r}", where=where, hint="30 rollout_steps"
        )
    metric, severity = str(entry["metric"]), str(entry.get("severity", "warning"))
    compared = _comparison(str(entry["threshold"]), number, where)
    side = "above" if "above" in compared else "below"
    points = int(window["points"])
    name = re.sub(
        r"[^a-z0-9]+", "-", f"{metric.rsplit('/', 2)[-1] if '/' in metric else metric} {side} {points}".lower()
    )
    return {
        "name": f"{name.strip('-')}-{severity}",
        "metric": metric,
        "window": points,
        "severity": severity,
        "confirmed": severity == "stop",
        "optional": True,
        "says": f"{metric} {entry['threshold']} over {points} steps",
        **compared,
    }


def _comparison(threshold: str, number: int, where: str) -> dict[str, Any]:
    text = threshold.strip()
    if text[:1] not in ("<", ">") or text[1:2] == "=":
        raise BadInput(
            f"early_stop[{number}]: cannot read the threshold {threshold!r}",
            where=where,
            hint="> 0.7, > rollout_batch_size * 0.9 or > 3× moving_avg(60-step prior)",
        )
    side, rest = ("above" if text[0] == ">" else "below"), text[1:].strip()
    multiple = _MULTIPLE.fullmatch(rest)
    if multiple is not None:
        prior = {"of": "prior", "points": int(multiple["points"]), "statistic": "mean"}
        return {side: float(multiple["factor"]), "baseline": prior}
    try:
        return {side: float(rest)}
    except ValueError:
        return {side: rest}
