"""Seeds that belong to a name: the same in every session, whatever ran before."""

from __future__ import annotations

import hashlib


def seed_of(seed: int, name: object) -> int:
    """32 bits for one trial of a campaign's seed."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:4], "big")


def request_seed(seed: int, name: object) -> int:
    """31 bits for one request of a trial's seed: inference servers read it as a signed number."""
    return seed_of(seed, name) >> 1
