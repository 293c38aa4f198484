"""A task's files as text, by part."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_MAX_FILE_BYTES = 256 * 1024
_WORD = re.compile(r"[a-z0-9]{3,}")


@dataclass(frozen=True)
class TaskFiles:
    """Relative path within a part to its text; what is no text is decoded with replacements."""

    instruction: str
    environment: Mapping[str, str]
    solution: Mapping[str, str]
    tests: Mapping[str, str]

    @property
    def known_words(self) -> frozenset[str]:
        """Words that the agent can have read: the instruction, and names and contents of the environment."""
        texts = [self.instruction, *self.environment, *self.environment.values()]
        return frozenset(word for text in texts for word in words_of(text))

    @property
    def solution_text(self) -> str:
        return "\n".join(self.solution.values())


def read_files(directory: Path, instruction: str) -> TaskFiles:
    """The files of a task that `load_task` has accepted; long ones up to 256 KiB."""
    parts = {name: _texts(directory / name) for name in ("environment", "solution", "tests")}
    return TaskFiles(instruction, **parts)


def words_of(text: str) -> list[str]:
    """Lower-case words and numbers of three or more characters."""
    return _WORD.findall(text.casefold())


def squeezed(text: str) -> str:
    """Text with every run of white space as one blank."""
    return " ".join(text.split())


def _texts(directory: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(directory.rglob("*")) if directory.is_dir() else ():
        if path.is_file():
            with path.open("rb") as file:
                found[str(path.relative_to(directory))] = file.read(_MAX_FILE_BYTES).decode(errors="replace")
    return found
