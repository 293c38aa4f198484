"""Alerts as JSON to a web address; what could not be delivered is tried again, also by the next watcher."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable
from dataclasses import asdict

from t1cli.watch.actions.journal import Journal
from t1cli.watch.engine import Alert

TIMEOUT_SECONDS = 10.0
SEVERITIES = ("warning", "stop")
Send = Callable[[str, bytes], None]


def post(url: str, body: bytes) -> None:
    """One POST. Raises OSError when it was not accepted."""
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS):
        pass


class Webhook:
    """Delivers warnings and stops, in order, each at least once and normally exactly once."""

    def __init__(self, url: str, run_name: str, journal: Journal | None, *, send: Send = post) -> None:
        self._url = url
        self._run_name = run_name
        self._journal = journal
        self._send = send
        self._waiting: deque[Alert] = deque()
        self.trouble = ""
        """Why the last delivery failed; empty while all is well. Never holds the address, which may be a secret."""

    def consider(self, alert: Alert) -> None:
        """Queue an alert unless it was delivered already."""
        if alert.severity not in SEVERITIES or (self._journal and self._journal.has("delivered", alert.key)):
            return
        self._waiting.append(alert)
        self.deliver()

    def deliver(self) -> None:
        """Send what waits; stop at the first failure, to keep the order."""
        while self._waiting:
            alert = self._waiting[0]
            text = f"{self._run_name}: {alert.severity} {alert.rule} at step {alert.step}: {alert.says}"
            body = json.dumps({"format_version": 1, "run": self._run_name, "text": text, **asdict(alert)}, default=str)
            try:
                self._send(self._url, body.encode())
            except (OSError, ValueError) as failure:
                code = getattr(failure, "code", None)
                self.trouble = f"webhook: {type(failure).__name__}" + (f" {code}" if code else "")
                return
            self.trouble = ""
            self._waiting.popleft()
            if self._journal:
                self._journal.note("delivered", alert.key)
