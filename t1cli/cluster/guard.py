"""Ends what is left of a private Ray when its driver is gone, however it died. Standard library only.

Run as a script it waits for its standard input to close: the driver holds the other end, so even SIGKILL closes it.
Processes are recognised by a random mark in the environment they were started with, never by name.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

MARK = "T1_CLUSTER"
"""Environment variable that every process of a private Ray inherits."""

_WORKER_HEADER_BYTES = 64
_ROUNDS = 50
_PAUSE_SECONDS = 0.05


def main(mark: str, temp_dir: Path, logs: Path) -> None:
    """Wait for the driver's end, then end its cluster, keep the workers' logs and remove the temporary directory."""
    # Ctrl-C reaches the whole terminal group; the driver decides when the cluster ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    end_cluster(mark)
    keep_logs(temp_dir, logs)
    shutil.rmtree(temp_dir, ignore_errors=True)


def end_cluster(mark: str) -> int:
    """SIGKILL every process that carries the mark until none is left; returns how many were ended."""
    ended: set[int] = set()
    for _ in range(_ROUNDS):
        # Again and again: a process may have started another between the scan and its own end.
        alive = marked_processes(mark)
        if not alive:
            break
        ended.update(pid for pid in alive if _end(pid, mark))
        time.sleep(_PAUSE_SECONDS)
    return len(ended)


def marked_processes(mark: str) -> list[int]:
    """Ids of this user's live processes whose starting environment carries the mark."""
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and _carries(int(entry), mark)]


def keep_logs(temp_dir: Path, logs: Path) -> None:
    """Copy what Ray's workers printed and what its daemons complained of; files without content are left out."""
    for path in sorted(temp_dir.glob("session_2*/logs/*")):
        # Every worker file begins with a line of ids that says nothing.
        worker = path.name.startswith("worker-") and path.suffix in (".out", ".err")
        daemon = path.name in ("raylet.err", "gcs_server.err")
        if path.is_file() and path.stat().st_size > (_WORKER_HEADER_BYTES if worker else 0) and (worker or daemon):
            logs.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, logs / path.name)


def _end(pid: int, mark: str) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # Looked at again behind the handle: from here on the id cannot be another process.
        if not _carries(pid, mark):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        return True
    except OSError:
        return False
    finally:
        os.close(handle)


def _carries(pid: int, mark: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{MARK}={mark}".encode() in environment.split(b"\0")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
