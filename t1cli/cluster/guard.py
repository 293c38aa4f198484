"""Ends what is left of a private Ray when its driver is gone, however it died. Standard library only.

Run as a script it waits for its standard input to close: the driver holds the other end, so even SIGKILL closes it.
A process is recognised by a random mark in the environment it was started with, or, since some of Ray's processes
write their title over that, by an open file below the cluster's own directory; never by its name.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

MARK = "T1_CLUSTER"
"""Environment variable that every process of a private Ray inherits."""

_WORKER_HEADER_BYTES = 64
_ROUNDS = 50
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class Cluster:
    """What tells the processes of one private Ray from all others."""

    mark: str
    temp_dir: Path

    def processes(self) -> list[int]:
        """Ids of this user's live processes that belong to it, without the asking process and its parent."""
        # The parent of a guard is the driver, which has files of the cluster open and must outlive it.
        own = {os.getpid(), os.getppid()}
        found = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
        return [pid for pid in found if pid not in own and self.owns(pid)]

    def owns(self, pid: int) -> bool:
        """Whether a process carries the mark or has a file below the directory open."""
        return self._is_marked(pid) or self._has_files_of(pid)

    def end(self) -> int:
        """SIGKILL its processes until none is left; returns how many were ended."""
        ended: set[int] = set()
        for _ in range(_ROUNDS):
            # Again and again: a process may have started another between the scan and its own end.
            alive = self.processes()
            if not alive:
                break
            ended.update(pid for pid in alive if self._end(pid))
            time.sleep(_PAUSE_SECONDS)
        return len(ended)

    def _is_marked(self, pid: int) -> bool:
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        return f"{MARK}={self.mark}".encode() in environment.split(b"\0")

    def _has_files_of(self, pid: int) -> bool:
        inside = f"{self.temp_dir}/"
        try:
            handles = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            return False
        for handle in handles:
            try:
                if os.readlink(f"/proc/{pid}/fd/{handle}").startswith(inside):
                    return True
            except OSError:
                continue
        return False

    def _end(self, pid: int) -> bool:
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            # Looked at again behind the handle: from here on the id cannot be another process.
            if not self.owns(pid):
                return False
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            return True
        except OSError:
            return False
        finally:
            os.close(handle)


def main(mark: str, temp_dir: Path, logs: Path) -> None:
    """Wait for the driver's end, then end its cluster, keep the workers' logs and remove the temporary directory."""
    # Ctrl-C reaches the whole terminal group; the driver decides when the cluster ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    Cluster(mark, temp_dir).end()
    keep_logs(temp_dir, logs)
    shutil.rmtree(temp_dir, ignore_errors=True)


def keep_logs(temp_dir: Path, logs: Path) -> None:
    """Copy what Ray's workers printed and what its daemons complained of; files without content are left out."""
    for path in sorted(temp_dir.glob("session_2*/logs/*")):
        # Every worker file begins with a line of ids that says nothing.
        worker = path.name.startswith("worker-") and path.suffix in (".out", ".err")
        daemon = path.name in ("raylet.err", "gcs_server.err")
        if path.is_file() and path.stat().st_size > (_WORKER_HEADER_BYTES if worker else 0) and (worker or daemon):
            logs.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, logs / path.name)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
