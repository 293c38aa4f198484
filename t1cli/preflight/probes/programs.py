"""Running a program of the node for its answer: no shell, a time limit, bounded output."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_CHARACTERS = 1 << 20


@dataclass(frozen=True)
class Said:
    """What a program answered."""

    output: str
    problem: str = ""
    """Why there is no answer; empty for an exit code of 0."""


def ask_program(command: Sequence[str], *, seconds: float = 10.0) -> Said:
    """Output of a program on PATH. A missing one, a failing one and a slow one are problems, not exceptions."""
    environment = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            list(command), capture_output=True, timeout=seconds, env=environment, stdin=subprocess.DEVNULL, check=False
        )
    except FileNotFoundError:
        return Said("", f"no {command[0]} on PATH")
    except subprocess.TimeoutExpired:
        return Said("", f"{command[0]} did not answer within {seconds:g} s")
    except OSError as error:
        return Said("", f"{command[0]}: {error.strerror or error}")
    output = done.stdout.decode(errors="replace")[:_MOST_CHARACTERS]
    if done.returncode:
        last = (done.stderr.decode(errors="replace").strip() or output.strip()).splitlines()
        return Said(output, f"{command[0]} ended with {done.returncode}: {last[-1][:200] if last else ''}")
    return Said(output)
