"""Asking a probe that makes something: it works in a guarded process, so that nothing of it outlives this one."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, cast

_ENDING_SECONDS = 60.0


class ProbeBroke(Exception):
    """The probe raised, or did not answer in time; the message says which."""


def ask_guarded(module: str, request: Mapping[str, Any], *, seconds: float) -> Any:
    """What `module.work(request, directory)` returns; `module.clean_up` has run afterwards. Raises ProbeBroke.

    The directory exists for the call alone. Both functions get and give what JSON can carry.
    """
    guard = subprocess.Popen(
        [sys.executable, "-m", "t1cli.preflight.guard"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert guard.stdin is not None and guard.stdout is not None
    try:
        guard.stdin.write(json.dumps({"module": module, "request": dict(request)}).encode() + b"\n")
        guard.stdin.flush()
        line = _line(guard, seconds)
    finally:
        # Also what ends a worker that is late.
        guard.stdin.close()
        guard.wait(timeout=_ENDING_SECONDS)
        guard.stdout.close()
    answer = json.loads(line or b'{"problem": "the probe ended without an answer"}')
    if "problem" in answer:
        raise ProbeBroke(str(answer["problem"]))
    return answer["value"]


def _line(guard: subprocess.Popen[bytes], seconds: float) -> bytes:
    """One line of the guard's output, within a time limit that a slow writer cannot stretch."""
    deadline, line = time.monotonic() + seconds, bytearray()
    output = cast(Any, guard.stdout)
    while not line.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([output], [], [], left)[0]:
            raise ProbeBroke(f"no answer within {seconds:g} s")
        piece = output.read1(65536)
        if not piece:
            break
        line += piece
    return bytes(line)
