"""Finding the few lines that matter in a log of any size: literals first, then each candidate line is looked at.

With the hyperscan wheel all literals are found in one pass; without it each is searched for by itself. Both hand the
same candidate lines to the same confirmation, so they agree line by line with the slow reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from t1cli.watch.logs.signatures import Hit, Signature, match_line, repeats, signatures

Candidates = dict[int, set[int]]
"""Start of a line to the signatures whose literal it has."""


def scan(chunk: bytes, offset: int = 0, *, find: Callable[[bytes], Candidates] | None = None) -> Iterator[Hit]:
    """Hits of whole lines; `offset` is where the chunk begins in its file."""
    table = signatures()
    for start, candidates in sorted((find or fastest())(chunk).items()):
        end = chunk.find(b"\n", start)
        line = chunk[start : end if end >= 0 else len(chunk)]
        found = match_line(line, tuple(candidates), table)
        if found:
            count, text = repeats(line), line[:2000].decode("utf-8", "replace").rstrip("\r")
            for index in found:
                yield Hit(offset + start, index, count, text)


def scan_slowly(chunk: bytes, offset: int = 0) -> Iterator[Hit]:
    """The reference: every signature on every line."""
    table, everything = signatures(), range(len(signatures()))
    at = 0
    for line in chunk.split(b"\n"):
        for index in match_line(line, everything, table):
            yield Hit(offset + at, index, repeats(line), line[:2000].decode("utf-8", "replace").rstrip("\r"))
        at += len(line) + 1


@cache
def fastest() -> Callable[[bytes], Candidates]:
    """Hyperscan where its wheel is installed, else literal search."""
    try:
        return _with_hyperscan()
    except ImportError:
        return find_literals


def find_literals(chunk: bytes) -> Candidates:
    """Candidates by one search per literal."""
    found: Candidates = {}
    for index, literal in _literals(signatures()):
        at = chunk.find(literal)
        while at >= 0:
            start = chunk.rfind(b"\n", 0, at) + 1
            found.setdefault(start, set()).add(index)
            end = chunk.find(b"\n", at)
            if end < 0:
                break
            at = chunk.find(literal, end)
    return found


def _with_hyperscan() -> Callable[[bytes], Candidates]:
    import hyperscan

    literals = _literals(signatures())
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[_escaped(literal) for _, literal in literals],
        ids=list(range(len(literals))),
        elements=len(literals),
        flags=[0] * len(literals),
    )
    owner = [index for index, _ in literals]

    def find(chunk: bytes) -> Candidates:
        found: Candidates = {}
        ends: list[tuple[int, int]] = []

        def on_match(number: int, _from: int, to: int, _flags: int, _context: Any) -> None:
            ends.append((to, owner[number]))

        database.scan(chunk, match_event_handler=on_match)
        for to, index in ends:
            found.setdefault(chunk.rfind(b"\n", 0, to - 1) + 1, set()).add(index)
        return found

    return find


def _literals(table: tuple[Signature, ...]) -> list[tuple[int, bytes]]:
    return [(index, literal) for index, signature in enumerate(table) for literal in signature.literals]


def _escaped(literal: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in literal)
