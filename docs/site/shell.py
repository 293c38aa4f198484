"""Runs the commands of a page: t1 in this process, everything else in bash; `cd` is remembered."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from t1cli.cli.app import app

TIME_LIMIT_SECONDS = 200
_SHELL_CHARACTERS = re.compile(r"[|<>;&$`*?]")


@dataclass(frozen=True)
class Outcome:
    """What one command did."""

    exit_code: int
    output: str


class Shell:
    """A working directory and a way to run commands in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, command: str) -> Outcome:
        """Run one line of a page."""
        words = shlex.split(command, comments=True)
        if words[:1] == ["cd"]:
            self.folder = self.folder / words[1]
            return Outcome(0 if self.folder.is_dir() else 1, "")
        os.chdir(self.folder)
        if words[:1] == ["t1"] and not _SHELL_CHARACTERS.search(" ".join(words)):
            result = CliRunner().invoke(app, words[1:])
            return Outcome(result.exit_code, result.stdout + result.stderr)
        return self._in_bash(command)

    def write(self, name: str, content: str) -> None:
        """Put a file where the page says it is; the executable bit stays as it was."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")

    def _in_bash(self, command: str) -> Outcome:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env={**os.environ, "PATH": path, "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=TIME_LIMIT_SECONDS,
            check=False,
        )
        return Outcome(done.returncode, done.stdout + done.stderr)


def missing_line(shown: tuple[str, ...], output: str) -> str | None:
    """The first line that a page shows and the command did not print, in order.

    A line of `…` stands for any lines, and `…` within a line for any text.
    """
    printed = [_plain(line) for line in output.splitlines()]
    at = 0
    for line in filter(None, map(_plain, shown)):
        if line == "…":
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in line.split("…")))
        found = next((number for number, text in enumerate(printed[at:], at) if pattern.fullmatch(text)), None)
        if found is None:
            return line
        at = found + 1
    return None


def _plain(line: str) -> str:
    return " ".join(line.split())
