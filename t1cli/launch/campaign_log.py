"""logs/campaign.log: every progress line with its time, secrets removed."""

from __future__ import annotations

import contextlib
import datetime
import os
from pathlib import Path

from t1cli.launch.backend import Progress
from t1cli.run.redaction import Redactor


class CampaignLog:
    """Appends lines and passes them on. Used as a Progress."""

    def __init__(self, path: Path, *, echo: Progress | None = None, redactor: Redactor | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Unbuffered: what a full disk refused must not be tried again when the file is closed.
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._echo = echo
        self._redactor = redactor or Redactor.of_environment()

    def __call__(self, line: str) -> None:
        """One line, or several."""
        self.only_log(line)
        if self._echo is not None:
            self._echo(self._redactor.text(line))

    def only_log(self, text: str) -> None:
        """What belongs into the file but not in front of people, such as a traceback.

        A log that cannot be written to ends no campaign: what it would have held is also on stderr or in events.jsonl.
        """
        stamp = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        lines = "".join(f"{stamp} {part}\n" for part in self._redactor.text(text).splitlines())
        with contextlib.suppress(OSError):
            os.write(self._descriptor, lines.encode("utf-8", "backslashreplace"))

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
