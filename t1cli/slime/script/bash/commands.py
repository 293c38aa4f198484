"""Commands whose output is computed here: pure ones, and probes of the machine that get an assumed answer."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from t1cli.slime.script.bash.conditions import is_tame
from t1cli.slime.script.bash.state import MAX_ITEMS, State, TooMuch, is_unknown

ASSUMED_LINKS: Final = 8
"""NVLink lines that a GPU topology is assumed to show."""


@dataclass(frozen=True)
class Call:
    """One command with its words and what it reads."""

    words: Sequence[str]
    stdin: str
    where: str

    @property
    def arguments(self) -> Sequence[str]:
        """Words after the name, options included."""
        return self.words[1:]

    @property
    def operands(self) -> Sequence[str]:
        """Words after the name without options and `--`."""
        return [word for word in self.arguments if not word.startswith("-")]


def output_of(call: Call, state: State) -> str | None:
    """What a command prints; None for a command whose output is not known."""
    compute = _PURE.get(posixpath.basename(call.words[0])) if call.words else None
    if compute is None:
        return None
    if is_unknown(call.stdin) and call.words[0] not in ("cat", "tee"):
        return None
    return compute(call, state)


def _echo(call: Call, state: State) -> str:
    words = list(call.arguments)
    newline = "\n"
    while words and re.fullmatch(r"-[neE]+", words[0]):
        newline = "" if "n" in words[0] else newline
        words = words[1:]
    return " ".join(words) + newline


def _printf(call: Call, state: State) -> str | None:
    return formatted(call.arguments)


def formatted(arguments: Sequence[str]) -> str | None:
    """What `printf FORMAT ITEM…` prints; the format is used again while items are left."""
    if not arguments:
        return None
    form = arguments[0].replace("\\n", "\n").replace("\\t", "\t")
    items, printed = list(arguments[1:]), []
    if len(items) > MAX_ITEMS:
        raise TooMuch("printf of too many items")
    while True:
        before = len(items)
        try:
            printed.append(_FORMAT.sub(lambda match: _format_one(match, items), form))
        except ValueError:
            return None
        if not items or len(items) == before:
            return "".join(printed)


_FORMAT: Final = re.compile(r"%(-?0?\d{0,3}(?:\.\d{1,3})?)([sdiqxfgu%])")


def _format_one(match: re.Match[str], items: list[str]) -> str:
    width, kind = match.groups()
    if kind == "%":
        return "%"
    item = items.pop(0) if items else ""
    if kind in "diux":
        return f"%{width}{'x' if kind == 'x' else 'd'}" % int(item or "0")
    if kind in "fg":
        return f"%{width}{kind}" % float(item or "0")
    return f"%{width}s" % item


def _seq(call: Call, state: State) -> str | None:
    words = [word for word in call.arguments if not word.startswith("-") or word.lstrip("-").isdigit()]
    if not words or not all(re.fullmatch(r"-?\d+", word) for word in words) or len(words) != len(call.arguments):
        return None
    numbers = [int(word) for word in words]
    first = numbers[0] if len(numbers) > 1 else 1
    step = numbers[1] if len(numbers) == 3 else 1
    if step == 0 or abs(numbers[-1] - first) // abs(step) > MAX_ITEMS:
        raise TooMuch("seq of too many numbers")
    return "".join(f"{n}\n" for n in range(first, numbers[-1] + (1 if step > 0 else -1), step))


def _cat(call: Call, state: State) -> str | None:
    return call.stdin if not call.operands else None


def _dirname(call: Call, state: State) -> str | None:
    return (posixpath.dirname(call.operands[0].rstrip("/")) or ".") + "\n" if call.operands else None


def _basename(call: Call, state: State) -> str | None:
    if not call.operands:
        return None
    name = posixpath.basename(call.operands[0].rstrip("/"))
    suffix = call.operands[1] if len(call.operands) > 1 else ""
    return (name.removesuffix(suffix) if suffix and name != suffix else name) + "\n"


def _realpath(call: Call, state: State) -> str | None:
    return absolute(call.operands[0], state) + "\n" if call.operands else None


def _wc(call: Call, state: State) -> str | None:
    if call.operands:
        return None
    counts = {"-l": call.stdin.count("\n"), "-w": len(call.stdin.split()), "-c": len(call.stdin)}
    option = call.arguments[0] if call.arguments else ""
    return f"{counts[option]}\n" if option in counts else None


_CLASSES: Final = {"[:upper:]": "A-Z", "[:lower:]": "a-z", "\\n": "\n", "[:space:]": " \t\n"}


def _tr(call: Call, state: State) -> str | None:
    sets = [_characters(word) for word in call.operands]
    options = {word for word in call.arguments if word.startswith("-")}
    if options == {"-d"} and len(sets) == 1:
        return "".join(char for char in call.stdin if char not in sets[0])
    if options or len(sets) != 2 or not sets[0] or not sets[1]:
        return None
    last = sets[1][-1]
    table = {ord(old): (sets[1][i] if i < len(sets[1]) else last) for i, old in enumerate(sets[0])}
    return call.stdin.translate(table)


def _characters(word: str) -> str:
    for name, meaning in _CLASSES.items():
        word = word.replace(name, meaning)
    return re.sub(r"(.)-(.)", lambda m: "".join(map(chr, range(ord(m[1]), ord(m[2]) + 1))), word, flags=re.S)


def _head(call: Call, state: State) -> str | None:
    match = re.fullmatch(r"-n ?(\d+)|-(\d+)", " ".join(call.arguments))
    if match is None:
        return None
    return "".join(call.stdin.splitlines(keepends=True)[: int(match[1] or match[2])])


def _nvidia_smi(call: Call, state: State) -> str | None:
    """NVLink is assumed; nothing else about a machine is."""
    if call.arguments and "topo" not in call.arguments:
        return None
    state.note(call.where, "GPUs joined by NVLink are assumed where the script asks nvidia-smi")
    return "NV18 NVLink\n" * ASSUMED_LINKS


def _grep(call: Call, state: State) -> str | None:
    """`grep -o PATTERN` and `grep -c PATTERN` over lines that are known."""
    options = [word for word in call.arguments if word.startswith("-")]
    if len(call.operands) != 1 or options not in (["-o"], ["-c"], ["-oE"], []):
        return None
    if not is_tame(call.operands[0]) or len(call.stdin) > 10_000:
        return None
    pattern, lines = re.compile(call.operands[0]), call.stdin.splitlines()
    if options == ["-c"]:
        return f"{sum(1 for line in lines if pattern.search(line))}\n"
    found = [hit for line in lines for hit in pattern.findall(line)] if options else lines
    return "".join(f"{hit}\n" for hit in found if options or pattern.search(hit))


def _sed(call: Call, state: State) -> str | None:
    """`sed 's/old/new/g; …'` of plain texts."""
    if len(call.arguments) != 1:
        return None
    text = call.stdin
    for part in call.arguments[0].split(";"):
        match = re.fullmatch(r"\s*s([/|#,])((?:(?!\1)[\w .:@-])*)\1((?:(?!\1)[\w .:@-])*)\1(g?)\s*", part)
        if match is None or "." in match[2]:
            return None
        lines = text.split("\n")
        text = "\n".join(line.replace(match[2], match[3], -1 if match[4] else 1) for line in lines)
    return text


def absolute(path: str, state: State) -> str:
    """A path from the directory that the script stands in, `..` resolved by text."""
    return posixpath.normpath(posixpath.join(state.directory, path))


_PURE: Final[Mapping[str, Callable[[Call, State], str | None]]] = {
    "echo": _echo,
    "printf": _printf,
    "seq": _seq,
    "cat": _cat,
    "tee": lambda call, state: call.stdin,
    "dirname": _dirname,
    "basename": _basename,
    "realpath": _realpath,
    "readlink": _realpath,
    "pwd": lambda call, state: state.directory + "\n",
    "wc": _wc,
    "tr": _tr,
    "head": _head,
    "grep": _grep,
    "sed": _sed,
    "nvidia-smi": _nvidia_smi,
    "true": lambda call, state: "",
    "false": lambda call, state: "",
    ":": lambda call, state: "",
    "cd": lambda call, state: "",
}
