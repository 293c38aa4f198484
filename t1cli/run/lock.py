"""One living campaign per name: a lock file with the owner's process identity, taken over when the owner is dead."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from t1cli.errors import Refused
from t1cli.records import read_json, write_json
from t1cli.run.directory import RunDirectory
from t1cli.run.process_identity import Liveness, ProcessIdentity


@dataclass(frozen=True)
class LockHolder:
    """Who runs a campaign, and which attempt."""

    process: ProcessIdentity
    attempt: int

    @property
    def liveness(self) -> Liveness:
        return self.process.liveness()


def lock_holder(campaign: Path) -> LockHolder | None:
    """The recorded owner of `runs/<name>`, dead or alive; None when nobody holds it."""
    recorded = read_json(_lock_file(campaign))
    try:
        return (
            LockHolder(ProcessIdentity.from_json(recorded["process"]), int(recorded["attempt"])) if recorded else None
        )
    except (KeyError, TypeError, ValueError):
        return None


def runs_now(run: RunDirectory) -> bool:
    """Whether a living process of this machine holds the lock for exactly this attempt."""
    holder = lock_holder(run.path.parent)
    return holder is not None and holder.attempt == run.attempt and holder.liveness == "alive"


def refuse_if_held(campaign: Path, *, stop_command: str) -> None:
    """Raise Refused with pid, directory and the stop command while another process may be running the campaign."""
    holder = lock_holder(campaign)
    if holder is None or holder.liveness == "dead" or holder.process == ProcessIdentity.of():
        return
    directory = campaign / f"attempt_{holder.attempt}"
    if holder.liveness == "unknown":
        raise Refused(
            f"campaign `{campaign.name}` is held by process {holder.process.pid} on host {holder.process.host}; "
            "whether it still lives cannot be seen from here",
            where=str(directory),
            hint=f"stop it there with `{stop_command}`; if that machine is gone, remove {_lock_file(campaign)}",
        )
    raise Refused(
        f"campaign `{campaign.name}` is running already as process {holder.process.pid}",
        where=str(directory),
        hint=f"`{stop_command}` ends it after its next save, `{stop_command} --now` at once",
    )


@contextmanager
def mutex(campaign: Path) -> Iterator[None]:
    """A short critical section among the launches of one campaign on one machine."""
    campaign.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(campaign / ".mutex", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def take(run: RunDirectory, *, stop_command: str, owner: ProcessIdentity | None = None) -> None:
    """Become the owner, inside `mutex`; a dead owner's lock is taken over. Raises Refused while another one lives."""
    campaign = run.path.parent
    refuse_if_held(campaign, stop_command=stop_command)
    hand_over(run, owner or ProcessIdentity.of())


def hand_over(run: RunDirectory, owner: ProcessIdentity) -> None:
    """Write another process's identity into a lock that this process holds."""
    write_json(_lock_file(run.path.parent), {"process": asdict(owner), "attempt": run.attempt})


def release(run: RunDirectory) -> None:
    """Give the lock back if this process holds it. On a disk that became read-only it stays, and is a dead owner's."""
    campaign = run.path.parent
    if not campaign.exists():
        return
    with contextlib.suppress(OSError), mutex(campaign):
        holder = lock_holder(campaign)
        if holder is not None and holder.process == ProcessIdentity.of():
            _lock_file(campaign).unlink(missing_ok=True)


def _lock_file(campaign: Path) -> Path:
    return campaign / "lock.json"
