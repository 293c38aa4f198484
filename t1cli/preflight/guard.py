"""Does a probe's work in a child process and removes every trace of it, however the asking process ends.

Run as a script: the first line of standard input is the request. The asker holds the other end, so that even SIGKILL
closes it; then the worker is ended, what it made is cleaned up, and its directory is removed. The guard has a session
of its own: a Ctrl-C or a kill of the asker's group does not reach it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

PREFIX = "t1-preflight-"


def main() -> None:
    """`{"module": …, "request": …}` in, one line of JSON out: `{"value": …}` or `{"problem": …}`."""
    asked = json.loads(_first_line())
    remove_dead()
    # The owner's id is in the name before anything is in the directory.
    directory = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    try:
        worker = os.fork()
        if worker == 0:
            _work(asked, directory)
        _wait(worker)
    finally:
        _clean_up(asked, directory)


def remove_dead(root: Path | None = None) -> None:
    """Remove directories of guards that were killed themselves."""
    for left in (root or Path(tempfile.gettempdir())).glob(f"{PREFIX}*-*"):
        number = left.name.removeprefix(PREFIX).split("-")[0]
        if number.isdigit() and not os.path.exists(f"/proc/{number}") and left.is_dir() and not left.is_symlink():
            _swept(left)
            shutil.rmtree(left, ignore_errors=True)


def _first_line() -> str:
    """Byte by byte: what follows must stay in the pipe, where its end is waited for."""
    line = bytearray()
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    return line.decode()


def _work(asked: dict[str, Any], directory: Path) -> None:
    """In the worker; never returns."""
    # Whatever makes temporary files makes them where the guard removes them.
    os.environ["TMPDIR"] = tempfile.tempdir = str(directory)
    try:
        answer = {"value": importlib.import_module(asked["module"]).work(asked["request"], directory)}
    except BaseException as broken:
        answer = {"problem": f"{type(broken).__name__}: {broken}"}
    with contextlib.suppress(OSError):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    os._exit(0)


def _wait(worker: int) -> None:
    """Until the worker has ended, or the asker is gone and the worker is ended for it."""
    pidfd = os.pidfd_open(worker)
    try:
        while True:
            ready, _, _ = select.select([0, pidfd], [], [])
            if pidfd in ready:
                break
            if not os.read(0, 1):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                select.select([pidfd], [], [])
                break
    finally:
        os.close(pidfd)
        os.waitpid(worker, 0)


def _clean_up(asked: dict[str, Any], directory: Path) -> None:
    try:
        importlib.import_module(asked["module"]).clean_up(asked["request"], directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _swept(directory: Path) -> None:
    from t1cli.terminal.sandbox.sweep import sweep_directory

    for record in directory.rglob("leases.jsonl"):
        sweep_directory(record.parent)


if __name__ == "__main__":
    main()
