"""First program of every Ray job of t1: replaces itself by the command in `argv.json` beside it. Standard library only.

Ray gives a job's entrypoint to a shell. This file is the whole entrypoint, so no shell ever sees a value of a spec.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main(directory: Path) -> None:
    """Become the command. Its program is looked up on PATH; `python3` is the interpreter that runs this file."""
    argv = [str(word) for word in json.loads((directory / "argv.json").read_text(encoding="utf-8"))]
    if argv[0] in ("python", "python3"):
        argv[0] = sys.executable
    sys.stdout.flush()
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main(Path(__file__).resolve().parent)
