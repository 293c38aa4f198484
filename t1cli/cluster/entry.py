"""First program of every Ray job of t1: runs the commands of `argv.json` beside it. Standard library only.

Ray gives a job's entrypoint to a shell. This file is the whole entrypoint, so no shell ever sees a value of a spec.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def main(directory: Path) -> None:
    """Run every command but the last to its end, then become the last; the first failure ends the job.

    `python3` is the interpreter that runs this file; other programs are looked up on PATH.
    """
    commands = json.loads((directory / "argv.json").read_text(encoding="utf-8"))
    *first, last = [_program(command) for command in commands]
    for command in first:
        # In this process group, so that stopping the job ends it too.
        status = subprocess.run(command, check=False).returncode
        if status:
            raise SystemExit(status)
    sys.stdout.flush()
    os.execvp(last[0], last)


def _program(command: list[object]) -> list[str]:
    words = [str(word) for word in command]
    return [sys.executable if words[0] in ("python", "python3") else words[0], *words[1:]]


if __name__ == "__main__":
    main(Path(__file__).resolve().parent)
