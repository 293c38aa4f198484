"""Integer arithmetic of `$(( … ))`: a precedence climber, no names but variables, no effects but assignments."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|\d+)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<operator>\*\*|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^]=|[-+*/%<>=!~&|^?:(),]))"
)
_BINARY: Final = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10, "**": 11,
}  # fmt: skip
_LIMIT: Final = 2**62
_MAX_NESTING: Final = 20


class NotANumber(Exception):
    """The expression is not integer arithmetic, or needs a value that is not known."""


class Arithmetic:
    """Evaluates one expression."""

    def __init__(
        self, text: str, get: Callable[[str], str], put: Callable[[str, str], None], *, nesting: int = 0
    ) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._get = get
        self._put = put
        self._nesting = nesting
        if nesting > _MAX_NESTING:
            raise NotANumber("variables that name each other")

    def value(self) -> int:
        """The result; raises NotANumber."""
        if not self._tokens:
            return 0
        result = self._comma()
        if self._at != len(self._tokens):
            raise NotANumber(f"`{self._tokens[self._at]}` is not understood")
        return result

    def _comma(self) -> int:
        result = self._ternary()
        while self._take(","):
            result = self._ternary()
        return result

    def _ternary(self) -> int:
        condition = self._binary(1)
        if not self._take("?"):
            return condition
        yes = self._ternary()
        if not self._take(":"):
            raise NotANumber("`?` without `:`")
        no = self._ternary()
        return yes if condition else no

    def _binary(self, lowest: int) -> int:
        left = self._unary()
        while (operator := self._peek()) in _BINARY and _BINARY[operator] >= lowest:
            self._at += 1
            right = self._binary(_BINARY[operator] + (operator != "**"))
            left = _apply(operator, left, right)
        return left

    def _unary(self) -> int:
        token = self._peek()
        if token in ("+", "-", "!", "~"):
            self._at += 1
            operand = self._unary()
            return {"+": operand, "-": -operand, "!": int(not operand), "~": ~operand}[token]
        if token in ("++", "--"):
            self._at += 1
            return self._change(self._next(), 1 if token == "++" else -1)
        return self._primary()

    def _primary(self) -> int:
        token = self._next()
        if token == "(":
            result = self._comma()
            if not self._take(")"):
                raise NotANumber("`(` without `)`")
            return result
        if token[0].isdigit():
            return int(token, 16) if token[:2].lower() == "0x" else int(token)
        if not (token[0].isalpha() or token[0] == "_"):
            raise NotANumber(f"`{token}` is not understood")
        return self._name(token)

    def _name(self, name: str) -> int:
        following = self._peek()
        if following in ("++", "--"):
            self._at += 1
            step = 1 if following == "++" else -1
            return self._change(name, step) - step
        if following == "=" or (len(following) == 2 and following[1] == "=" and following[0] in "+-*/%&|^"):
            self._at += 1
            right = self._ternary()
            result = right if following == "=" else _apply(following[0], self._read(name), right)
            self._put(name, str(result))
            return result
        return self._read(name)

    def _read(self, name: str) -> int:
        text = self._get(name).strip()
        if re.fullmatch(r"[+-]?\d+", text):
            return int(text)
        return Arithmetic(text, self._get, self._put, nesting=self._nesting + 1).value()

    def _change(self, name: str, step: int) -> int:
        result = self._read(name) + step
        self._put(name, str(result))
        return result

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            raise NotANumber("the expression ends too early")
        self._at += 1
        return token

    def _take(self, token: str) -> bool:
        if self._peek() == token:
            self._at += 1
            return True
        return False


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NotANumber(f"`{text[at:].strip()[:20]}` is not understood")
        tokens.append(match.group().strip())
        at = match.end()
    return tokens


def _apply(operator: str, left: int, right: int) -> int:
    if operator in ("/", "%") and right == 0:
        raise NotANumber("a division by zero")
    if operator in ("**", "<<", ">>") and not 0 <= right <= 62:
        raise NotANumber(f"`{operator} {right}` is out of range")
    result = _OPERATIONS[operator](left, right)
    if abs(result) > _LIMIT:
        raise NotANumber("a number beyond 64 bits")
    return result


def _quotient(left: int, right: int) -> int:
    magnitude = abs(left) // abs(right)
    return magnitude if (left < 0) == (right < 0) else -magnitude


_OPERATIONS: Final[dict[str, Callable[[int, int], int]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "%": lambda a, b: a - b * _quotient(a, b),
    "**": lambda a, b: a**b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "&&": lambda a, b: int(bool(a) and bool(b)),
    "||": lambda a, b: int(bool(a) or bool(b)),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}
