"""An argument list as slime's parsers would split it: flags, their values, and what they would drop."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from t1cli.slime.arguments.table import Argument, Default, Table

Value = Default


@dataclass(frozen=True)
class Given:
    """One flag as it stands in an argument list."""

    flag: str
    """As it was written."""
    values: tuple[str, ...]
    argument: Argument | None
    """None for a flag that the table does not know."""
    surplus: tuple[str, ...] = ()
    """Words after it that its parser takes for nothing."""

    @property
    def words(self) -> tuple[str, ...]:
        """The flag and its values, as an argument list holds them."""
        return (self.flag, *self.values, *self.surplus)


@dataclass(frozen=True)
class Arguments:
    """What slime's namespace would hold before its own validation; defaults filled in from the table."""

    table: Table
    given: tuple[Given, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    asynchronous: bool = False
    """Whether `train_async.py` is the entry."""
    values: Mapping[str, Value] = field(default_factory=dict)
    """Attribute name to value, of arguments that were given and could be read."""

    def has(self, dest: str) -> bool:
        """Whether the argument was given at all."""
        return dest in self.values

    def value(self, dest: str) -> Value:
        """The value of an attribute, or its default; None for an attribute that this version does not have."""
        if dest in self.values:
            return self.values[dest]
        argument = self.table.by_dest(dest)
        return argument.default if argument is not None else None

    def on(self, dest: str) -> bool:
        """Whether a switch is on."""
        return bool(self.value(dest))

    def number(self, dest: str, otherwise: float = 0.0) -> float:
        """A number; `otherwise` where there is none."""
        value = self.value(dest)
        return float(value) if isinstance(value, int | float) else otherwise

    def whole(self, dest: str, otherwise: int = 0) -> int:
        """A whole number; `otherwise` where there is none."""
        value = self.value(dest)
        return int(value) if isinstance(value, int | float) else otherwise

    def text(self, dest: str) -> str:
        """A text; empty where there is none."""
        value = self.value(dest)
        return value if isinstance(value, str) else ""

    def many(self, dest: str) -> tuple[str, ...]:
        """The words of an argument that takes several."""
        value = self.value(dest)
        return tuple(str(item) for item in value) if isinstance(value, list) else ()


def read(
    argv: Sequence[str], table: Table, *, environment: Mapping[str, str] | None = None, asynchronous: bool = False
) -> Arguments:
    """The namespace of an argument list; of two values for one attribute the later one wins, as in argparse."""
    given = split(argv, table)
    values: dict[str, Value] = {}
    for item in given:
        if item.argument is not None and reading_problem(item) is None:
            values[item.argument.dest] = _value(item, item.argument, values.get(item.argument.dest))
    return Arguments(table, given, environment or {}, asynchronous, values)


def split(argv: Sequence[str], table: Table) -> tuple[Given, ...]:
    """The flags of an argument list with their words, in order; words before the first flag have an empty flag."""
    groups: list[tuple[str, list[str]]] = []
    for word in argv:
        if word.startswith("--"):
            flag, equals, inline = word.partition("=")
            groups.append((flag, [inline] if equals else []))
        elif groups:
            groups[-1][1].append(word)
        else:
            groups.append(("", [word]))
    return tuple(_given(flag, words, table) for flag, words in groups)


def reading_problem(given: Given) -> str | None:
    """Why a known flag's values cannot be read, in the words after the flag's name; None when they can."""
    argument = given.argument
    if argument is None or not argument.takes_values:
        return None
    if not given.values and argument.nargs not in ("*", "?"):
        return "needs a value"
    if isinstance(argument.nargs, int) and len(given.values) != argument.nargs:
        return f"needs {argument.nargs} values, found {len(given.values)}"
    for word in given.values:
        try:
            value = _read_word(word, argument)
        except ValueError:
            return f"takes {_KIND_WORDS[argument.kind]}, found `{word}`"
        if argument.choices and value not in argument.choices:
            return f"takes one of {', '.join(map(str, argument.choices))}; found `{word}`"
    return None


_KIND_WORDS: Mapping[str, str] = {
    "int": "a whole number",
    "float": "a number",
    "json": "JSON",
    "expr": "a whole number or a list expression such as [0]*3+[1]*45",
}
_LAYERS = re.compile(r"[\[\]()0-9,+*\s]+")


def _value(given: Given, argument: Argument, former: Value) -> Value:
    if not argument.takes_values:
        negative = given.flag.startswith("--no-") and given.flag != argument.flag
        return not negative if argument.action != "store_false" else False
    words = [_read_word(word, argument) for word in given.values]
    if argument.action == "append":
        return [*(former if isinstance(former, list) else []), *words]
    if argument.takes_many:
        return words
    return words[0] if words else None


def _read_word(word: str, argument: Argument) -> Value:
    if argument.kind == "int":
        return int(word)
    if argument.kind == "float":
        return float(word)
    if argument.kind == "json":
        loaded: Value = json.loads(word)
        return loaded
    if argument.kind == "expr" and not _LAYERS.fullmatch(word):
        raise ValueError(word)
    return word


def _given(flag: str, words: Sequence[str], table: Table) -> Given:
    argument = table.find(flag)
    if argument is None:
        return Given(flag, tuple(words), None)
    if not argument.takes_values:
        taken = 0
    elif argument.takes_many:
        taken = argument.nargs if isinstance(argument.nargs, int) else len(words)
    else:
        taken = 1 if argument.kind != "unknown" else len(words)
    return Given(flag, tuple(words[:taken]), argument, tuple(words[taken:]))
