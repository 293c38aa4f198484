"""Series as promtool writes them, with what training needs on top.

A series is words in a row; each stands for points:

    0.4            one point               0.4x10         the point and 10 more of it (11)
    1+0.5x10       1, then ten times +0.5  1-0.5x10       and downwards
    _   _x5        no value                nan  inf -inf  what they say (also `nanx3`)
    ~N(0.4,0.05)x30  thirty points of noise with mean and standard deviation, from the test's seed
    (write 0.0x12, not 0x12: YAML reads that as the number 18)
    rewind(20)     the run is resumed: what follows begins at step 20 again
"""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass

from t1cli.errors import BadInput

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_NOISE = re.compile(rf"~N\(\s*({_NUMBER})\s*,\s*({_NUMBER})\s*\)(?:x(\d+))?")
_RAMP = re.compile(rf"({_NUMBER})([-+](?:\d+\.?\d*|\.\d+))x(\d+)")
_REPEAT = re.compile(rf"({_NUMBER}|[-+]?nan|[-+]?inf|_)(?:x(\d+))?", re.IGNORECASE)
_REWIND = re.compile(r"rewind\((\d+)\)")


@dataclass(frozen=True)
class Point:
    """One point of a series; `value` is None where there is none."""

    step: int
    value: float | None
    session: int
    """How many rewinds came before it."""


def expand(text: str, seed: int = 0) -> tuple[Point, ...]:
    """The points of a series, from step 0. Raises BadInput that quotes the word it cannot read."""
    noise = random.Random(seed)
    points: list[Point] = []
    step = session = 0
    for word in re.sub(r"\(\s*([^)]*?)\s*\)", lambda m: "(" + m[1].replace(" ", "") + ")", text).split():
        rewind = _REWIND.fullmatch(word)
        if rewind is not None:
            step, session = int(rewind[1]), session + 1
            continue
        for value in _values(word, noise):
            points.append(Point(step, value, session))
            step += 1
    return tuple(points)


def _values(word: str, noise: random.Random) -> list[float | None]:
    found = _NOISE.fullmatch(word)
    if found is not None:
        return [noise.gauss(float(found[1]), float(found[2])) for _ in range(int(found[3] or 1))]
    found = _RAMP.fullmatch(word)
    if found is not None:
        return [float(found[1]) + i * float(found[2]) for i in range(int(found[3]) + 1)]
    found = _REPEAT.fullmatch(word)
    if found is None:
        raise BadInput(
            f"cannot read {word!r} in a series", hint="0.4, 0.4x10, 1+0.5x10, _x5, nan, ~N(0.4,0.05)x30, rewind(20)"
        )
    # As in promtool, `_x5` is five gaps, while `0.4x10` is a point and ten more.
    if found[1] == "_":
        return [None] * int(found[2] or 1)
    value = float(found[1])
    return [value if not math.isnan(value) else math.nan] * (int(found[2]) + 1 if found[2] else 1)
