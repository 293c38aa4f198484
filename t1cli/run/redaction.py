"""Keeps secrets out of everything a run writes: by name, by shape, and by value wherever it appears."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from t1cli.secret_names import names_a_secret

REDACTED: Final = "<redacted>"
_SHORTEST_VALUE_SOUGHT: Final = 6
"""Shorter values are hidden under their own name only: replacing every `1` would destroy the text around it."""

_NO_SECRET_VALUES: Final = frozenset(
    {"", "true", "false", "none", "null", "yes", "no", "on", "off", "disabled", "token", "0", "1", REDACTED}
)

_NUMERIC_SECRET: Final = re.compile(r"(?i)pass(?:word|wd|phrase)|secret|credential|pwd|_pin$")
"""Only these are ever numbers; a number called `key` or `token` is a count or an ID."""

_SHAPES: Final = (
    re.compile(r"\b(?:sk|rk|pk)-[A-Za-z0-9_-]{16,}"),
    re.compile(r"\b(?:hf|ghp|gho|ghu|ghs|ghr|glpat|pypi|npm|xox[abprs])[_-][A-Za-z0-9_-]{16,}"),
    re.compile(r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\bAIza[A-Za-z0-9_-]{35}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
)
_KEY_BEGINS: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_KEY_ENDS: Final = re.compile(r"-----END [A-Z ]*PRIVATE KEY-----")
_LONGEST_KEY_LINES: Final = 300
"""Of 64 characters: an RSA key of 16,384 bits has 200. Behind that a key without an end hides nothing more."""
_SHORTEST_LINE_SOUGHT: Final = 16
"""Of a secret with several lines; shorter ones are braces and words that stand everywhere."""
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{8,}")
_URL_PASSWORD: Final = re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)")
_OPTION: Final = re.compile(r"^--?([A-Za-z][\w.-]*)$")
_ASSIGNMENT: Final = re.compile(r"^(-{0,2})([A-Za-z_][\w.-]*)=(.*)$", re.DOTALL)


class Redactor:
    """Replaces secrets in text, argument lists and JSON values."""

    def __init__(self, secret_values: Iterable[str] = ()) -> None:
        sought = {part for value in secret_values for part in (value, *_lines_of(value)) if _worth_seeking(part)}
        # Longest first: a secret that contains another one must vanish whole.
        pattern = "|".join(re.escape(value) for value in sorted(sought, key=len, reverse=True))
        self._values = re.compile(pattern) if pattern else None

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] | None = None, *more: Any) -> Redactor:
        """Seeks the secret-named variables of an environment, and secret-named leaves of further JSON values."""
        values = set(secret_values(dict(os.environ if environment is None else environment)))
        for value in more:
            values |= secret_values(value)
        return cls(values)

    def text(self, text: str) -> str:
        """Text without known secret values and without anything shaped like a key."""
        if self._values is not None:
            text = self._values.sub(REDACTED, text)
        for shape in _SHAPES:
            text = shape.sub(REDACTED, text)
        text = _BEARER.sub(rf"\1\2{REDACTED}", text)
        return _URL_PASSWORD.sub(REDACTED, text)

    def json(self, value: Any, name: str = "") -> Any:
        """A copy of a JSON value; a leaf under a secret name is hidden whole, mapping keys are kept readable."""
        if isinstance(value, Mapping):
            return {self.text(str(k)): self.json(v, _child(name, str(k))) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.json(item, name) for item in value]
        if _is_secret_leaf(name, value):
            return REDACTED
        return self.text(value) if isinstance(value, str) else value

    def argv(self, arguments: Sequence[str]) -> tuple[str, ...]:
        """An argument list in which `--wandb-key X`, `--wandb-key=X` and `--set engine.env.TOKEN=X` hide X."""
        shown: list[str] = []
        hide_next = False
        for argument in arguments:
            assignment = _ASSIGNMENT.match(argument)
            option = _OPTION.match(argument)
            if hide_next and not argument.startswith("-"):
                shown.append(REDACTED)
            elif assignment and names_a_secret(assignment[2]):
                shown.append(f"{assignment[1]}{assignment[2]}={REDACTED}")
            else:
                shown.append(self.text(argument))
            hide_next = bool(option and names_a_secret(option[1]))
        return tuple(shown)


class LineRedactor:
    """Redacts text that comes line by line: of a private key, every line from its first to its last."""

    def __init__(self, redactor: Redactor, key_lines_left: int = 0) -> None:
        self._redactor = redactor
        self.key_lines_left = key_lines_left
        """Lines that may still be of a key that has begun; what one that goes on elsewhere has to be given."""

    def line(self, line: str) -> str:
        """One line, without its end. Give every line, in order."""
        if self.key_lines_left:
            self.key_lines_left = 0 if _KEY_ENDS.search(line) else self.key_lines_left - 1
            return REDACTED
        begun = [match.end() for match in _KEY_BEGINS.finditer(line)]
        if begun and not _KEY_ENDS.search(line, begun[-1]):
            self.key_lines_left = _LONGEST_KEY_LINES
        return self._redactor.text(line)


def secret_values(value: Any, name: str = "") -> set[str]:
    """Every text under a secret name in a JSON value."""
    if isinstance(value, Mapping):
        return {text for key, item in value.items() for text in secret_values(item, _child(name, str(key)))}
    if isinstance(value, list | tuple):
        return {text for item in value for text in secret_values(item, name)}
    return {str(value)} if _is_secret_leaf(name, value) else set()


def assigned_secrets(arguments: Sequence[str]) -> set[str]:
    """The values that an argument list gives to secret names."""
    pairs = [match for argument in arguments if (match := _ASSIGNMENT.match(argument))]
    found = {match[3].strip("'\"") for match in pairs if names_a_secret(match[2])}
    for option, value in itertools.pairwise(arguments):
        match = _OPTION.match(option)
        if match and names_a_secret(match[1]) and not value.startswith("-"):
            found.add(value)
    return found


def _worth_seeking(value: str) -> bool:
    if len(value) < _SHORTEST_VALUE_SOUGHT or value.lower() in _NO_SECRET_VALUES:
        return False
    # A place on this machine (SSH_AUTH_SOCK) is no secret, and hiding it would break every path below it.
    return not (value.startswith("/") and os.path.exists(value))


def _lines_of(value: str) -> Iterator[str]:
    """The lines of a secret that has several: a log may show it a line at a time. Its frame is no secret."""
    lines = [line.strip() for line in value.splitlines()]
    return (line for line in lines if len(lines) > 1 and len(line) >= _SHORTEST_LINE_SOUGHT and line[:5] != "-----")


def _child(name: str, key: str) -> str:
    # What lies under a secret name is secret, whatever it is called there (origins.json: `value` under the dotted key).
    return name if names_a_secret(name) else key


def _is_secret_leaf(name: str, value: Any) -> bool:
    if isinstance(value, bool) or value is None or not names_a_secret(name):
        return False
    if isinstance(value, int | float) and not _NUMERIC_SECRET.search(name):
        return False
    return str(value).lower() not in _NO_SECRET_VALUES
