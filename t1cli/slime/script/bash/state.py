"""What a script has set so far, what could not be known, and the limits of an evaluation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node

    from t1cli.slime.script.bash.syntax import Source

MAX_STEPS: Final = 50_000
MAX_DEPTH: Final = 40
MAX_CHARACTERS: Final = 1_000_000
MAX_ITEMS: Final = 20_000
MAX_TOTAL: Final = 5_000_000
"""Characters that all expansions together may produce."""

# An unknown part of a text is its name between two private-use characters, which no script holds.
_OPEN, _CLOSE = "\ue000", "\ue001"
_MARK: Final = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")
_EMPTY_WHEN_UNSET: Final = frozenset({"PYTHONPATH", "PATH", "LD_LIBRARY_PATH", "NO_PROXY", "no_proxy"})


class TooMuch(Exception):
    """The script loops, nests or grows beyond the limits of an evaluation."""


class Word(str):
    """A word that remembers the line it was written on."""

    line: int

    def __new__(cls, text: str, line: int = 0) -> Word:
        made = super().__new__(cls, text)
        made.line = line
        return made


@dataclass(frozen=True)
class Note:
    """Something about a script that people should know: what was assumed, skipped or could not be decided."""

    where: str
    message: str


@dataclass(frozen=True)
class Command:
    """A command that the script would run."""

    words: tuple[Word, ...]
    environment: Mapping[str, str]
    """Assignments before its name."""
    where: str


@dataclass(frozen=True)
class Unknown:
    """A value that a script takes from outside."""

    name: str
    where: str
    reason: str

    @property
    def remedy(self) -> str:
        """How a person gives the value; only a variable can be set from outside."""
        if self.name.isidentifier():
            return f"convert with --set {self.name}=VALUE"
        return "no variable holds it: put the value into the script, or into the spec"


@dataclass
class State:
    """Variables, functions and findings of one evaluation."""

    overrides: Mapping[str, str]
    """`--set VAR=VALUE`: what the environment would give."""
    tree: Path
    """The directory that `source` may read below."""
    allowed: tuple[Path, ...] = ()
    """Further directories that `source` may read below."""
    directory: str = "/"
    shown: str = "script"
    """Name of the file that is being evaluated."""
    variables: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, list[Word]] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    cleared: set[str] = field(default_factory=set)
    """Names that the script has unset itself."""
    functions: dict[str, tuple[Node, Source]] = field(default_factory=dict)
    positional: tuple[str, ...] = ()
    notes: list[Note] = field(default_factory=list)
    unknowns: dict[str, Unknown] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    """Names that the script has looked at."""
    overwritten: set[str] = field(default_factory=set)
    """Overrides that the script has replaced before it looked at them."""
    commands: list[Command] = field(default_factory=list)
    """Commands with an effect outside, in order."""
    steps: int = 0
    produced: int = 0
    depth: int = 0

    def __post_init__(self) -> None:
        self.variables |= dict(self.overrides)

    def step(self) -> None:
        """Count one step. Raises TooMuch."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TooMuch(f"more than {MAX_STEPS:,} steps")

    def produce(self, text: str) -> str:
        """Count the characters of an expansion. Raises TooMuch."""
        self.produced += len(text)
        if self.produced > MAX_TOTAL:
            raise TooMuch(f"expansions grow beyond {MAX_TOTAL:,} characters")
        return text

    def get(self, name: str, where: str) -> str:
        """A variable's value; an unset one is an unknown with its name."""
        self.read.add(name)
        if name in self.variables:
            return self.variables[name]
        if name in self.arrays:
            return self.arrays[name][0] if self.arrays[name] else ""
        if name in _EMPTY_WHEN_UNSET or name in self.cleared:
            return ""
        return self.unknown(name, where, "an environment variable that the script does not set")

    def is_set(self, name: str) -> bool:
        """Whether a variable or array has a value."""
        self.read.add(name)
        return name in self.variables or name in self.arrays

    def put(self, name: str, value: str) -> None:
        """Set a variable. Raises TooMuch."""
        if len(value) > MAX_CHARACTERS:
            raise TooMuch(f"{name} grows beyond {MAX_CHARACTERS:,} characters")
        self.arrays.pop(name, None)
        self.variables[name] = value
        if value == self.overrides.get(name):
            self.overwritten.discard(name)
        elif name in self.overrides and name not in self.read:
            self.overwritten.add(name)

    def given(self, name: str) -> str | None:
        """What `--set` gives for a value that cannot be known otherwise."""
        value = self.overrides.get(name)
        if value is not None:
            self.read.add(name)
        return value

    def put_array(self, name: str, items: list[Word]) -> None:
        """Set an array. Raises TooMuch."""
        if len(items) > MAX_ITEMS:
            raise TooMuch(f"{name} grows beyond {MAX_ITEMS:,} items")
        self.variables.pop(name, None)
        self.arrays[name] = items

    def unknown(self, name: str, where: str, reason: str) -> str:
        """A placeholder for a value from outside; the first place that needs it is remembered."""
        chosen, number = (name := "".join(name.split())), 2
        # Two commands of one name have two outputs; a variable has one value.
        while not name.isidentifier() and chosen in self.unknowns and self.unknowns[chosen].reason != reason:
            chosen, number = f"{name}{number}", number + 1
        self.unknowns.setdefault(chosen, Unknown(chosen, where, reason))
        return f"{_OPEN}{chosen}{_CLOSE}"

    def note(self, where: str, message: str) -> None:
        """Say something once."""
        note = Note(where, message)
        if note not in self.notes:
            self.notes.append(note)


def is_unknown(text: str) -> bool:
    """Whether any part of a text is unknown."""
    return _OPEN in text


def unknown_names(text: str) -> tuple[str, ...]:
    """Names of the unknown parts, in order."""
    return tuple(_MARK.findall(text))


def shown(text: str) -> str:
    """A text with its unknown parts as `<NAME>`."""
    return _MARK.sub(r"<\1>", text)
