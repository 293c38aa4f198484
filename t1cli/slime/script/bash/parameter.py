"""The forms of `${…}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import translate
from typing import Final

from t1cli.slime.script.bash.arithmetic import Arithmetic, NotANumber
from t1cli.slime.script.bash.state import State, is_unknown

_NAME: Final = r"(?:[A-Za-z_]\w*|[@*#?$!-]|\d+)"
_LONGEST: Final = 10_000
"""Characters of a text that patterns are tried on."""
_FORM: Final = re.compile(
    rf"(?P<length>#)?(?P<indirect>!)?(?P<name>{_NAME})(?:\[(?P<index>[^]]*)\])?(?P<rest>.*)", re.S
)
_CASES: Final[dict[str, Callable[[str], str]]] = {"^^": str.upper, ",,": str.lower, "^": str.capitalize}


class Parameters:
    """Reads parameters of one place of a script."""

    def __init__(self, state: State, expand: Callable[[str], str], *, where: str) -> None:
        self._state = state
        self._expand = expand
        self._where = where

    def items(self, inner: str) -> Sequence[str] | None:
        """The items of `a[@]`, `@` or a slice of them; None for anything that is one text."""
        form = _form(inner)
        if form["length"] or (form["index"] != "@" and form["name"] != "@"):
            return None
        items: list[str] = list(self._array(form["name"]))
        rest = form["rest"] or ""
        if rest.startswith(":") and rest[1:2] not in ("-", "+", "=", "?"):
            offset, _, length = rest[1:].partition(":")
            start = self._number(offset)
            items = items[start : start + self._number(length) if length else None]
        elif rest:
            items = [self._modified(item, rest, is_set=True, name=form["name"]) for item in items]
        return items

    def value(self, inner: str) -> str:
        """One text."""
        form = _form(inner)
        name, rest = form["name"], form["rest"] or ""
        if form["length"]:
            many = form["index"] in ("@", "*") or name in ("@", "*")
            return str(len(self._array(name)) if many else len(self._state.get(name, self._where)))
        if form["index"] in ("@", "*") or name == "*":
            separator = self._state.variables.get("IFS", " ")[:1]
            return separator.join(self._array(name))
        if form["indirect"] and self._state.is_set(name):
            name = self._state.get(name, self._where)
        is_set = self._is_set(name, form["index"])
        return self._modified(self._plain(name, form["index"], rest), rest, is_set=is_set, name=name)

    def _array(self, name: str) -> Sequence[str]:
        if name in ("@", "*"):
            return self._state.positional
        self._state.read.add(name)
        if name in self._state.arrays:
            return self._state.arrays[name]
        return [self._state.variables[name]] if name in self._state.variables else []

    def _is_set(self, name: str, index: str) -> bool:
        if name.isdigit():
            return int(name) <= len(self._state.positional)
        if index not in ("", "0") and name in self._state.arrays:
            return self._number(index) < len(self._state.arrays[name])
        return self._state.is_set(name)

    def _plain(self, name: str, index: str, rest: str) -> str:
        defaulted = rest[:2] in (":-", ":=", ":+", ":?") or rest[:1] in ("-", "=", "+", "?")
        if defaulted and not self._is_set(name, index):
            return ""
        if name == "#":
            return str(len(self._state.positional))
        if name in ("?", "$", "!", "-"):
            return "0" if name == "?" else self._state.unknown(f"${name}", self._where, "a number of the running shell")
        if name.isdigit():
            return self._argument(int(name))
        if index:
            items = self._array(name)
            at = self._number(index)
            return items[at] if -len(items) <= at < len(items) else ""
        return self._state.get(name, self._where)

    def _argument(self, number: int) -> str:
        if number == 0:
            return self._state.variables.get("BASH_SOURCE", "bash")
        given = self._state.positional
        if number <= len(given):
            return given[number - 1]
        return self._state.unknown(f"${number}", self._where, "an argument of the script")

    def _modified(self, value: str, rest: str, *, is_set: bool, name: str) -> str:
        if not rest:
            return value
        colon = rest.startswith(":")
        operator, word = (rest[1:2], rest[2:]) if colon else (rest[0], rest[1:])
        if operator in ("-", "=", "+", "?") and (colon or rest[0] in "-=+?"):
            return self._defaulted(value, operator, word, present=bool(value) if colon else is_set, name=name)
        if colon:
            offset, _, length = rest[1:].partition(":")
            start = self._number(offset)
            return value[start : start + self._number(length) if length else None]
        return self._edited(value, rest)

    def _defaulted(self, value: str, operator: str, word: str, *, present: bool, name: str) -> str:
        if operator == "+":
            return self._expand(word) if present else ""
        if present:
            return value
        if operator == "?":
            return self._state.unknown(name, self._where, "an environment variable that the script requires")
        default = self._expand(word)
        if operator == "=":
            self._state.put(name, default)
        return default

    def _edited(self, value: str, rest: str) -> str:
        if is_unknown(value) or len(value) > _LONGEST:
            return self._state.unknown(f"${{…{rest}}}", self._where, "a part of a value that is not known")
        for operator, change in _CASES.items():
            if rest == operator:
                return change(value)
        longest = rest[:2] in ("##", "%%")
        pattern = self._expand(rest[2 if longest else 1 :])
        if rest[0] in "#%":
            return _without(value, pattern, prefix=rest[0] == "#", longest=longest)
        if rest[0] == "/":
            everywhere = rest.startswith("//")
            old, _, new = rest[2 if everywhere else 1 :].partition("/")
            matcher = re.compile(_regex(self._expand(old)))
            replacement = self._expand(new)
            return matcher.sub(lambda _: replacement, value, count=0 if everywhere else 1)
        return self._state.unknown(f"${{…{rest}}}", self._where, "a form of ${…} that is not understood")

    def _number(self, text: str) -> int:
        expanded = self._expand(text)
        try:
            return Arithmetic(expanded, lambda name: self._state.get(name, self._where), self._state.put).value()
        except NotANumber:
            return 0


def _form(inner: str) -> dict[str, str]:
    match = _FORM.fullmatch(inner)
    if match is None:
        return {"length": "", "indirect": "", "name": inner, "index": "", "rest": ""}
    return {key: value or "" for key, value in match.groupdict().items()}


def _without(value: str, pattern: str, *, prefix: bool, longest: bool) -> str:
    matcher = re.compile(_regex(pattern) + r"\Z", re.S)
    cuts = range(len(value) + 1)
    hits = [cut for cut in cuts if matcher.match(value[:cut] if prefix else value[cut:])]
    if not hits:
        return value
    cut = max(hits) if prefix == longest else min(hits)
    return value[cut:] if prefix else value[:cut]


def _regex(pattern: str) -> str:
    return translate(pattern).removesuffix(r"\Z").removesuffix(r"\z")
