"""`pause`: hold the next rollout until a person looks; for troubles that time or an operator cures, such as a pool."""

from __future__ import annotations

import time

from t1cli.records import write_json
from t1cli.run.directory import RunDirectory
from t1cli.watch.actions.journal import Journal
from t1cli.watch.engine import Alert
from t1cli.watch.rule import Rule


class PauseAction:
    """Holds the next rollout when a rule with `actions: [pause]` fires and pausing is allowed."""

    def __init__(self, run: RunDirectory, journal: Journal, rules: dict[str, Rule], *, allowed: bool) -> None:
        self._run = run
        self._journal = journal
        self._rules = rules
        self._allowed = allowed

    def consider(self, alert: Alert) -> bool:
        """Whether the next rollout is held now because of this alert. The same alert never pauses a run twice."""
        rule = self._rules.get(alert.rule)
        if not self._allowed or rule is None or "pause" not in rule.actions or self._journal.has("pause", alert.key):
            return False
        self._journal.note("pause", alert.key)
        write_json(self._run.pause_request, {"rule": alert.rule, "step": alert.step, "time": time.time()})
        return True
