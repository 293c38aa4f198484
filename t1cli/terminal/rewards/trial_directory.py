"""Trial directories on the host: fresh ones, so that no report of another run can be taken for this one's.

(catalogue R4)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from t1cli.terminal.rewards.failure import VerifierError


@dataclass(frozen=True)
class VerifierOutput:
    """What a verifier left, as kept on the host: `<trial>/verifier/`."""

    path: Path

    @classmethod
    def create(cls, trial_dir: Path) -> VerifierOutput:
        """Make the directory. Raises VerifierError when the trial has one: trial names are never used twice."""
        path = trial_dir / "verifier"
        try:
            path.mkdir(parents=True)
        except FileExistsError as error:
            raise VerifierError("trial_directory_reused", f"{path} exists: a trial name was used twice") from error
        except OSError as error:
            raise VerifierError("trial_directory", str(error)) from error
        return cls(path)

    def keep(self, name: str, content: bytes | None) -> None:
        """Write one file; None writes nothing."""
        if content is not None:
            (self.path / name).write_bytes(content)
