"""A process that has pytest imported and runs each request in a fork that first enters a sandbox.

Started as a program with no environment: `python -I -S -B warm_pytest_server.py SOCKET_FD SITE_PACKAGES`. Standard
library and pytest only. A request is one JSON datagram with two descriptors: where output goes, and where this process
reports `started PID` and `ended STATUS`. It ends when the other end of the socket is closed.

The fork gives up everything before pytest starts: it enters the sandbox's namespaces, takes its limits, drops every
capability, and becomes the sandbox's user. Nothing of the owner's memory is in it: the server was started empty.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38
_LAST_CAPABILITY = 63
_CAPABILITY_VERSION_3 = 0x20080522
_NAMESPACES = ("mnt", "ipc", "uts", "net", "pid")
_BROKEN = 125
"""Status of a fork that failed before pytest ran."""


def main() -> None:
    """Serve until the owner is gone."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    sys.path.append(sys.argv[2])
    _warm_up()
    requests.send(b"ready")
    # Children report for themselves, and the kernel reaps them; also those inside a sandbox whose parent was killed:
    # as long as one is left unreaped, that sandbox cannot be taken down.
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, 65536, 2)
        if not message:
            return
        if os.fork() == 0:
            requests.close()
            _serve(json.loads(message), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _warm_up() -> None:
    """Import all that a run imports, by running one test."""
    import ctrf.main
    import pytest

    with (
        tempfile.TemporaryDirectory() as scratch,
        contextlib.chdir(scratch),
        open(os.devnull, "w", encoding="utf-8") as nowhere,
    ):
        Path("test_warm_up.py").write_text("def test_nothing():\n    assert True\n", encoding="utf-8")
        with contextlib.redirect_stdout(nowhere):
            arguments = ["-q", "-s", "-c", os.devnull, "-p", "no:cacheprovider", "-p", ctrf.main.__name__]
            pytest.main([*arguments, "--ctrf", "ctrf.json", "test_warm_up.py"])
    sys.modules.pop("test_warm_up", None)
    gc.collect()
    gc.freeze()


def _serve(request: dict[str, Any], output: int, report: int) -> None:
    """The fork: enter, fork again into the process namespace, and report how that ended."""
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.write(report, f"started {os.getpid()}\n".encode())
        _enter(request)
        child = os.fork()
        if child == 0:
            os.close(report)
            _run(request, output)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.write(report, f"ended {128 - status if status < 0 else status}\n".encode())
        os._exit(0)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(output, f"cannot enter the sandbox: {error!r}\n".encode())
            os.write(report, f"ended {_BROKEN}\n".encode())
    finally:
        os._exit(1)


def _enter(request: dict[str, Any]) -> None:
    pid = int(request["init_pid"])
    names = (*(("user",) if request["user_namespace"] else ()), *_NAMESPACES)
    opened = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names]
    # Checked after opening: the descriptors stay with this process even if its number is given to another.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    if fields[0] in "ZX" or fields[19] != request["init_start"]:
        raise ProcessLookupError("process 1 of the sandbox is gone")
    for descriptor in opened:
        _call("setns", descriptor, 0)
        os.close(descriptor)


def _run(request: dict[str, Any], output: int) -> None:
    status = _BROKEN
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, standard in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(descriptor, standard)
        _give_up(request)
        os.environ.clear()
        os.environ.update(request["env"])
        os.umask(0o022)
        os.chdir(request["cwd"])
        sys.path[:] = [*(entry for entry in sys.path if entry != sys.argv[2]), request["site_packages"]]
        status = _pytest(request)
    except BaseException as error:
        os.write(2, f"the verifier broke: {error!r}\n".encode())
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        os._exit(status)


def _pytest(request: dict[str, Any]) -> int:
    import pytest

    status = int(pytest.main(request["arguments"]))
    sys.stdout.flush()
    if status in (0, 1):
        Path(request["reward"]).write_text("1\n" if status == 0 else "0\n", encoding="ascii")
    return status


def _give_up(request: dict[str, Any]) -> None:
    for name, value in request["limits"].items():
        kind = getattr(resource, f"RLIMIT_{name.upper()}")
        resource.setrlimit(kind, (value, value))
    for capability in range(_LAST_CAPABILITY + 1):
        # Numbers that this kernel does not know are refused; that is fine.
        _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    user = request["user"]
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _call("capset", header, (ctypes.c_uint32 * 6)())
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # Last: a change of user clears it.
    _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _call(name: str, *arguments: Any) -> None:
    if getattr(_LIBC, name)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")


if __name__ == "__main__":
    main()
