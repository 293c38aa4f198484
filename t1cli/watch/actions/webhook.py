"""Alerts as JSON to a web address."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from dataclasses import asdict

from t1cli.watch.actions.delivery import Delivery
from t1cli.watch.actions.journal import Journal
from t1cli.watch.counting import OF_RUN, Counting
from t1cli.watch.engine import Alert

TIMEOUT_SECONDS = 10.0
Post = Callable[[str, bytes], None]


def post(url: str, body: bytes) -> None:
    """One POST. Raises OSError when it was not accepted."""
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS):
        pass


def webhook(
    url: str, run_name: str, journal: Journal | None, *, counting: Counting = OF_RUN, send: Post = post
) -> Delivery:
    """Deliveries to an address, which may be a secret and is never told. `text` is for people, `step` for programs."""

    def deliver(alert: Alert) -> None:
        text = f"{run_name}: {alert.severity} {alert.rule} at {counting.one(alert.step)}: {alert.says}"
        body = json.dumps({"format_version": 1, "run": run_name, "text": text, **asdict(alert)}, default=str)
        send(url, body.encode())

    return Delivery("webhook", "delivered", deliver, journal)
