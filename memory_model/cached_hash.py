"""A hash computed once: the frozen inputs are keys of many caches, and hashing forty fields each time is slow."""

from __future__ import annotations

from typing import Any


class CachedHash:
    """Base of frozen dataclasses; each sets `__hash__ = CachedHash.__hash__` in its own body."""

    def __hash__(self) -> int:
        known = self.__dict__.get("_hash")
        if known is None:
            known = hash(tuple(self.__dict__.values()))
            self.__dict__["_hash"] = known
        return int(known)

    def __getstate__(self) -> dict[str, Any]:
        # String hashes differ between processes, so the number must not travel.
        return {key: value for key, value in self.__dict__.items() if key != "_hash"}
