"""logs/campaign.log: every progress line with its time, secrets removed."""

from __future__ import annotations

import datetime
from pathlib import Path

from t1cli.launch.backend import Progress
from t1cli.launch.redaction import Redactor


class CampaignLog:
    """Appends lines and passes them on. Used as a Progress."""

    def __init__(self, path: Path, *, echo: Progress | None = None, redactor: Redactor | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._stream = path.open("a", encoding="utf-8", buffering=1)
        self._echo = echo
        self._redactor = redactor or Redactor.of_environment()

    def __call__(self, line: str) -> None:
        """One line, or several."""
        self.only_log(line)
        if self._echo is not None:
            self._echo(self._redactor.text(line))

    def only_log(self, text: str) -> None:
        """What belongs into the file but not in front of people, such as a traceback."""
        stamp = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        self._stream.writelines(f"{stamp} {part}\n" for part in self._redactor.text(text).splitlines())

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._stream.close()
