"""The closed word list that every generated name and text is drawn from."""

from __future__ import annotations

import random
import re
from collections.abc import Collection

WORDS: tuple[str, ...] = (
    *("acorn", "almond", "amber", "anchor", "apple", "apron", "aspen", "badge", "bamboo", "barley", "basil", "beach"),
    *("berry", "birch", "bloom", "brick", "brook", "bronze", "cabin", "cactus", "candle", "canyon", "cedar", "cherry"),
    *("clay", "cliff", "clover", "coast", "cobalt", "comet", "copper", "coral", "cotton", "crane", "crystal", "daisy"),
    *("delta", "desert", "drum", "eagle", "ember", "fable", "falcon", "fern", "fig", "flame", "flint", "forest"),
    *("garnet", "ginger", "glacier", "grape", "harbor", "hazel", "heron", "honey", "indigo", "iris", "island", "ivory"),
    *("jade", "jasmine", "kettle", "lagoon", "lake", "lantern", "lemon", "lilac", "linen", "lotus", "maple", "marble"),
    *("meadow", "melon", "mint", "moss", "nectar", "oak", "oasis", "olive", "onyx", "opal", "orchid", "otter"),
    *("pearl", "pebble", "pine", "plum", "pond", "quartz", "raven", "reef", "ridge", "river", "robin", "saffron"),
)
"""96 short lowercase nouns. A name is two of them (`amber_cedar`), a text is one to three."""

_NAME = re.compile(r"\b([a-z]+)_([a-z]+)\b")


def draw_name(rng: random.Random, exclude: Collection[str]) -> str:
    """A two-word name outside `exclude`. Raises ValueError when too few names are left to find one."""
    for _ in range(10_000):
        name = "_".join(rng.sample(WORDS, 2))
        if name not in exclude:
            return name
    raise ValueError(f"no free name among {len(WORDS) * (len(WORDS) - 1)} with {len(exclude)} excluded")


def names_in(text: str) -> frozenset[str]:
    """Every two-word name that occurs in a text."""
    known = frozenset(WORDS)
    return frozenset(m[0] for m in _NAME.finditer(text) if m[1] in known and m[2] in known)
