"""What a run directory may hold, read from the page that tells users so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "run-directory.md"
_ENTRY = re.compile(r"^( *)(\S+)(?: {2,}\S.*)?$")
_DESCRIPTION = 40
"""Lines that begin behind this column go on with the description above them."""


Parts = tuple[str, ...]


def listed() -> tuple[Parts, ...]:
    """Every path of the page's tree below the runs directory, as patterns: N and NAME stand for what varies.

    Directories end in a slash.
    """
    tree = PAGE.read_text(encoding="utf-8").partition("```\n")[2].partition("```")[0]
    above, found = list[str](), list[Parts]()
    for line in tree.splitlines()[1:]:
        entry = _ENTRY.match(line)
        if entry and len(entry[1]) < _DESCRIPTION:
            name = re.sub(r"_N(?=\W|$)", "_[0-9]*", entry[2]).replace("NAME", "*")
            above = [*above[: len(entry[1]) // 2 - 1], name]
            found.append(tuple(above))
    return tuple(found)


def unlisted(runs: Path) -> list[str]:
    """Paths below a runs directory that the page does not list; a directory that it lists no part of holds anything."""
    return sorted("".join(parts) for parts in _unlisted(runs, (), listed()))


def _unlisted(place: Path, above: Parts, entries: tuple[Parts, ...]) -> Iterator[Parts]:
    for path in place.iterdir():
        is_directory = path.is_dir() and not path.is_symlink()
        parts = (*above, f"{path.name}/" if is_directory else path.name)
        matching = [entry for entry in entries if len(entry) == len(parts) and all(map(fnmatchcase, parts, entry))]
        if not matching:
            yield parts
        elif is_directory and any(_has_parts(entry, entries) for entry in matching):
            yield from _unlisted(path, parts, entries)


def _has_parts(entry: Parts, entries: tuple[Parts, ...]) -> bool:
    return any(len(other) > len(entry) and other[: len(entry)] == entry for other in entries)
