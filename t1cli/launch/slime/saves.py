"""Which checkpoints a following launch knows to be complete: from the job's log, and from disk where it is visible."""

from __future__ import annotations

from pathlib import Path

from t1cli.launch.slime.log import LoggedSave
from t1cli.run.checkpoint_manifest import (
    Owner,
    finished_rollout,
    iteration_directory,
    saved_rollouts,
    seal_finished,
)
from t1cli.run.events import EventKind, EventWriter
from t1cli.run.rollout_number import rollout_number


class Saves:
    """Saves of every role. A save counts once every role has it: in a critic-only phase the actor has none."""

    def __init__(self, owners: dict[Path, Owner], events: EventWriter) -> None:
        self._owners, self._events = owners, events
        self._newest: dict[Path, int] = {d: n for d in owners if (n := finished_rollout(d)) is not None}

    @property
    def complete(self) -> int | None:
        """The newest rollout that every role has saved."""
        return min(self._newest.values()) if self._newest and len(self._newest) == len(self._owners) else None

    def logged(self, save: LoggedSave) -> None:
        """Megatron's own line; it tells even where the directory cannot be seen from here."""
        for directory in self._owners:
            if Path(save.directory) == directory:
                self._note(directory, save.rollout)

    def look(self) -> list[str]:
        """Look at the trackers on disk; returns a line for every rollout that has become complete."""
        before = self.complete
        for directory in self._owners:
            newest = finished_rollout(directory)
            if newest is not None:
                self._note(directory, newest)
        now = self.complete
        return [f"rollout {rollout_number(now)} is saved"] if now is not None and now != before else []

    def seal(self) -> None:
        """Write the missing manifests of what is visible from here; the job itself does it between rollouts."""
        for directory, owner in self._owners.items():
            if saved_rollouts(directory):
                seal_finished(directory, owner)

    def _note(self, directory: Path, rollout: int) -> None:
        if self._newest.get(directory, -1) >= rollout:
            return
        self._newest[directory] = rollout
        place = iteration_directory(directory, rollout)
        size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        role = self._owners[directory].role
        self._events.write(EventKind.CHECKPOINT, rollout=rollout + 1, role=role, path=str(place), bytes=size)
