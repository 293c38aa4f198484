"""The one thing watch may do to a run: ask it to stop after its next save."""

from __future__ import annotations

import time

from t1cli.launch.json_files import write_json
from t1cli.launch.run_directory import RunDirectory
from t1cli.watch.engine import Alert


class StopAction:
    """Turns the first firing stop rule into a stop request, when that is allowed."""

    def __init__(self, run: RunDirectory | None, *, allowed: bool) -> None:
        self._run = run
        self._allowed = allowed

    def consider(self, alert: Alert) -> bool:
        """Ask the run to stop if this alert says so and it may; returns whether a request was written now.

        Asking twice is harmless: a request that stands already is left as it is.
        """
        if alert.severity != "stop" or not self._allowed or self._run is None or self._run.stop_request.exists():
            return False
        write_json(
            self._run.stop_request,
            {"by": "t1 watch", "rule": alert.rule, "step": alert.step, "says": alert.says, "time": time.time()},
        )
        return True
