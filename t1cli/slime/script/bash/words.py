"""Expansion of one word: quotes, `$NAME`, `${…}`, `$(…)`, `$((…))`, word splitting. File names are never expanded."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from t1cli.slime.script.bash.arithmetic import Arithmetic, NotANumber
from t1cli.slime.script.bash.parameter import Parameters
from t1cli.slime.script.bash.state import State, Word, is_unknown

Substitute = Callable[[str, int], str]
"""Output of a command, by its text and line."""
End = Callable[[int], int | None]
"""Where a command substitution that starts at this character of the word ends, if the parser knows."""

_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_SPECIAL: Final = "@*#?$!-0123456789"
_ESCAPES: Final = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"', "r": "\r", "a": "\a", "0": "\0"}


class Fields:
    """Words in the making."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._open: str | None = None
        self._no_items = False

    def literal(self, text: str) -> None:
        """Text that is never split."""
        self._open = (self._open or "") + text

    def split(self, text: str) -> None:
        """Text of an unquoted expansion."""
        parts = text.split()
        if not parts:
            if text and self._open is not None:
                self._close()
            return
        if text[0].isspace():
            self._close()
        for index, part in enumerate(parts):
            if index:
                self._close()
            self.literal(part)
        if text[-1].isspace():
            self._close()

    def items(self, items: list[str]) -> None:
        """A quoted `"${a[@]}"`: one word per item."""
        self._no_items = self._no_items or not items
        for index, item in enumerate(items):
            if index:
                self._close()
            if self._open is None and isinstance(item, Word):
                self._open = item
            else:
                self.literal(item)

    def open_quote(self) -> None:
        """A `"` begins."""
        self._no_items = False

    def close_quote(self) -> None:
        """A `"` ends: an empty pair is an empty word, but a quoted array without items is no word."""
        if self._open is None and not self._no_items:
            self._open = ""

    def finish(self) -> list[str]:
        """Every word."""
        self._close()
        return self.done

    def _close(self) -> None:
        if self._open is not None:
            self.done.append(self._open)
        self._open = None


class Expander:
    """Expands words of one place of a script."""

    def __init__(self, state: State, substitute: Substitute, *, where: str, line: int) -> None:
        self._state = state
        self._substitute = substitute
        self._where = where
        self._line = line
        self.parameters = Parameters(state, self.text, where=where)

    def fields(self, text: str, end: End | None = None) -> list[Word]:
        """The words that a word becomes; none for an unquoted empty expansion."""
        fields = Fields()
        self._walk(text, fields, end or (lambda at: None), quoted=False)
        return [item if isinstance(item, Word) else Word(item, self._line) for item in fields.finish()]

    def text(self, text: str, end: End | None = None) -> str:
        """A word as one text, as in an assignment: nothing is split."""
        fields = _Joined(self._state.variables.get("IFS", " "))
        self._walk(text, fields, end or (lambda at: None), quoted=False)
        return "".join(fields.finish())

    def heredoc(self, text: str, end: End | None = None) -> str:
        """The body of an unquoted here-document: expansions, but no quotes."""
        fields = _Joined(self._state.variables.get("IFS", " "))
        self._walk_quoted(text, 0, fields, end or (lambda at: None), closing="")
        return "".join(fields.finish())

    def number(self, text: str) -> int:
        """An arithmetic expression. Raises NotANumber, also for an unknown value."""
        expanded = self.text(text)
        if is_unknown(expanded):
            raise NotANumber("it needs a value that is not known")

        def get(name: str) -> str:
            value = self._state.get(name, self._where) if self._state.is_set(name) else "0"
            if is_unknown(value):
                raise NotANumber(f"{name} is not known")
            return value

        return Arithmetic(expanded, get, self._state.put).value()

    def _walk(self, text: str, fields: Fields, end: End, *, quoted: bool) -> None:
        at = 0
        while at < len(text):
            self._state.step()
            char = text[at]
            if char == "'":
                close = _find(text, "'", at + 1)
                fields.literal(text[at + 1 : close])
                at = close + 1
            elif char == '"':
                fields.open_quote()
                at = self._walk_quoted(text, at + 1, fields, end, closing='"')
                fields.close_quote()
            elif char == "\\":
                if text[at + 1 : at + 2] != "\n":
                    fields.literal(text[at + 1 : at + 2])
                at += 2
            elif text.startswith("$'", at):
                at = self._ansi(text, at + 2, fields)
            elif char in "$`":
                at = self._expansion(text, at, fields, end, quoted=quoted)
            else:
                fields.literal(char)
                at += 1

    def _walk_quoted(self, text: str, at: int, fields: Fields, end: End, *, closing: str) -> int:
        while at < len(text):
            self._state.step()
            char = text[at]
            if char == closing:
                return at + 1
            if char == "\\" and text[at + 1 : at + 2] in ("$", "`", "\\", "\n", closing or "$"):
                fields.literal("" if text[at + 1] == "\n" else text[at + 1])
                at += 2
            elif char in "$`":
                at = self._expansion(text, at, fields, end, quoted=True)
            else:
                fields.literal(char)
                at += 1
        return at

    def _expansion(self, text: str, at: int, fields: Fields, end: End, *, quoted: bool) -> int:
        put = fields.literal if quoted else fields.split
        if text[at] == "`":
            close = _find(text, "`", at + 1)
            put(self._substitute(text[at + 1 : close], self._line + text.count("\n", 0, at)))
            return close + 1
        if text.startswith("$((", at) and (close := _matching(text, at + 1, "(", ")")) and text[close - 1] == ")":
            put(self._arithmetic(text[at + 3 : close - 1]))
            return close + 1
        if text.startswith("$(", at):
            known = end(at)
            close = known - 1 if known is not None else _matching(text, at + 1, "(", ")")
            put(self._substitute(text[at + 2 : close], self._line + text.count("\n", 0, at)))
            return close + 1
        if text.startswith("${", at):
            close = _matching(text, at + 1, "{", "}")
            self._parameter(text[at + 2 : close], fields, quoted=quoted)
            return close + 1
        match = _NAME.match(text, at + 1)
        if match is not None:
            self._parameter(match.group(), fields, quoted=quoted)
            return match.end()
        if text[at + 1 : at + 2] and text[at + 1] in _SPECIAL:
            self._parameter(text[at + 1], fields, quoted=quoted)
            return at + 2
        fields.literal("$")
        return at + 1

    def _parameter(self, inner: str, fields: Fields, *, quoted: bool) -> None:
        items = self.parameters.items(inner)
        if items is not None:
            self._state.produce("".join(items))
            if quoted:
                fields.items(list(items))
            else:
                for index, item in enumerate(items):
                    fields.split((" " if index else "") + item)
            return
        value = self._state.produce(self.parameters.value(inner))
        (fields.literal if quoted else fields.split)(value)

    def _arithmetic(self, text: str) -> str:
        try:
            return str(self.number(text))
        except NotANumber as error:
            return self._state.unknown(f"(({text.strip()}))", self._where, f"arithmetic: {error}")

    def _ansi(self, text: str, at: int, fields: Fields) -> int:
        fields.literal("")
        while at < len(text) and text[at] != "'":
            if text[at] == "\\" and at + 1 < len(text):
                fields.literal(_ESCAPES.get(text[at + 1], "\\" + text[at + 1]))
                at += 2
            else:
                fields.literal(text[at])
                at += 1
        return at + 1


class _Joined(Fields):
    """One text: nothing is split, arrays are joined."""

    def __init__(self, separators: str) -> None:
        super().__init__()
        self._separator = separators[:1]

    def split(self, text: str) -> None:
        self.literal(text)

    def items(self, items: list[str]) -> None:
        self.literal(" ".join(items))


def _find(text: str, char: str, at: int) -> int:
    found = text.find(char, at)
    return len(text) if found < 0 else found


def _matching(text: str, at: int, opening: str, closing: str) -> int:
    """Index of the bracket that closes the one at `at`, quotes respected; the text's last index without one."""
    depth, quote = 0, ""
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"" and not (char == "'" and opening == "{"):
            quote = char
        elif char == opening:
            depth += 1
        elif char == closing:
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return max(0, len(text) - 1)
