"""Warnings and stops to a place outside; what could not be delivered is tried again, also by the next watcher."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from t1cli.watch.actions.journal import Journal
from t1cli.watch.engine import Alert

SEVERITIES = ("warning", "stop")


class Delivery:
    """Delivers in order, each alert at least once and normally exactly once.

    `send` raises OSError or ValueError for what was not accepted; `done` is the journal's word for what was.
    """

    def __init__(self, channel: str, done: str, send: Callable[[Alert], None], journal: Journal | None) -> None:
        self._channel = channel
        self._done = done
        self._send = send
        self._journal = journal
        self._waiting: deque[Alert] = deque()
        self.trouble = ""
        """Why the last delivery failed; empty while all is well. Holds no address and no message of the other side."""

    def consider(self, alert: Alert) -> None:
        """Queue an alert unless it was delivered already."""
        if alert.severity not in SEVERITIES or (self._journal and self._journal.has(self._done, alert.key)):
            return
        self._waiting.append(alert)
        self.deliver()

    def deliver(self) -> None:
        """Send what waits; stop at the first failure, to keep the order."""
        while self._waiting:
            alert = self._waiting[0]
            try:
                self._send(alert)
            except (OSError, ValueError) as failure:
                code = getattr(failure, "code", None)
                self.trouble = f"{self._channel}: {type(failure).__name__}" + (f" {code}" if code else "")
                return
            self.trouble = ""
            self._waiting.popleft()
            if self._journal:
                self._journal.note(self._done, alert.key)
