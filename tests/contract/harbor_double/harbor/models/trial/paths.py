"""Where a trial keeps its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TrialPaths:
    trial_dir: Path

    def mkdir(self) -> None:
        for name in ("agent", "verifier", "artifacts"):
            (self.trial_dir / name).mkdir(parents=True, exist_ok=True)
