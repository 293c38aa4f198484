"""What a turn's prompt is to a history: the four prefix relations, from exact to none (catalogue F1).

History: the ids that the engine saw and sampled last on a branch. Prompt: the ids that it was given next. A relation
finds out how many of the prompt's first ids stand for the whole history; what follows them is new.

    strict        the same ids
    normalized    the same ids but for at most 96 at the history's end, in whose place the prompt has at most 16; both
                  say the same, white space and Unicode composition aside
    retokenized   other ids that say exactly the same, and an id of the prompt ends where the history does
    split         none of these: a new row

The 97 × 17 cells of the second (0 to 96 trailing ids × 0 to 16 glue ids) have a fixed order: those that say exactly the
same first, then fewer trailing ids, then fewer glue ids. The cell taken is recorded, so that anybody can check and
repeat a repair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Final

import numpy as np

from t1cli.terminal.trajectory.row import Ids, Relation
from t1cli.terminal.trajectory.text_space import LOOKBACK, TextSpace, boundary_after, normal_form

TRAILING_IDS: Final = 96
"""Most ids at the history's end that a normalized relation puts aside."""
GLUE_IDS: Final = 16
"""Most ids that the prompt may have in their place."""
_MOST_IDS_PER_CHARACTER: Final = 4


@dataclass(frozen=True)
class History:
    """The last ids that the engine saw and sampled on one branch, and what they say."""

    ids: Ids
    reply_pieces: Sequence[str] | None = None
    """The text that the last ids left in the reply, by the generation-time offset map; None: what they decode to."""

    def pieces(self, text: TextSpace, start: int) -> list[str]:
        """The text of each id from `start` on."""
        before = max(0, start - LOOKBACK)
        pieces = text.pieces(self.ids[before:])[start - before :]
        if self.reply_pieces:
            mapped = min(len(self.reply_pieces), len(pieces))
            pieces[len(pieces) - mapped :] = self.reply_pieces[len(self.reply_pieces) - mapped :]
        return pieces


@dataclass(frozen=True)
class Match:
    """How a prompt continues a history."""

    relation: Relation
    stands_for: int
    """The prompt's first ids that stand for the whole history; the rest is new."""
    cell: tuple[int, int] | None = None
    """Trailing ids put aside and glue ids in their place, of a normalized relation."""
    retokenized: int = 0
    """Ids of the history that the prompt has as other ids."""


def strict(history: History, prompt: Ids) -> Match | None:
    """The prompt begins with the very ids of the history."""
    length = len(history.ids)
    if length > len(prompt) or (length and history.ids[-1] != prompt[length - 1]):
        return None
    return Match("strict", length) if np.array_equal(history.ids, prompt[:length]) else None


def normalized(history: History, prompt: Ids, text: TextSpace) -> Match | None:
    """The first cell of the grid whose two sides say the same.

    Cells with more trailing ids than necessary have the same ids in front on both sides, and as many more glue ids:
    none of them can hold where those with the fewest do not, so these alone are looked at.
    """
    trailing = len(history.ids) - common_prefix(history.ids, prompt)
    if not 0 < trailing <= TRAILING_IDS:
        return None
    start = len(history.ids) - trailing
    told = "".join(history.pieces(text, start))
    retold = list(islice(_cuts(text, prompt, start), GLUE_IDS + 1))
    glue = _first(retold, told) if told in retold else _first(map(_normal_form, retold), normal_form(told))
    if glue is None:
        return None
    changed = _changed(history.ids[start:], prompt[start : start + glue])
    return Match("normalized", start + glue, (trailing, glue), changed)


def retokenized(history: History, prompt: Ids, text: TextSpace) -> Match | None:
    """The prompt's text begins with exactly the history's, and an id ends where the history does."""
    common = common_prefix(history.ids, prompt)
    told = "".join(history.pieces(text, common))
    # No character has more than four ids, so that what lies further on need not be read.
    near = prompt[: common + _MOST_IDS_PER_CHARACTER * len(told) + LOOKBACK]
    count = boundary_after(_pieces(text, near, common), len(told))
    if count is None or _said(text, prompt, common, common + count) != told:
        return None
    changed = _changed(history.ids[common:], prompt[common : common + count])
    return Match("retokenized", common + count, retokenized=changed)


def common_prefix(left: Ids, right: Ids) -> int:
    """Number of equal ids from the start."""
    length = min(len(left), len(right))
    different = left[:length] != right[:length]
    return int(different.argmax()) if different.any() else length


def _cuts(text: TextSpace, ids: Ids, start: int) -> Iterator[str | None]:
    """What the ids from `start` on say up to each place where they can be cut, from `start` itself on.

    None where a cut would go through a character: the ids before it say something else when nothing follows them.
    """
    pieces = _pieces(text, ids[: start + GLUE_IDS + LOOKBACK], start)
    for count, told in enumerate(accumulate(pieces, initial="")):
        yield told if _said(text, ids, start, start + count) == told else None


def _pieces(text: TextSpace, ids: Ids, start: int) -> list[str]:
    """The text of each id from `start` on, read in their surroundings."""
    before = max(0, start - LOOKBACK)
    return text.pieces(ids[before:])[start - before :]


def _said(text: TextSpace, ids: Ids, start: int, end: int) -> str:
    """What the ids from `start` to before `end` say when nothing follows them."""
    return "".join(_pieces(text, ids[:end], start))


def _first(texts: Iterable[str | None], wanted: str) -> int | None:
    return next((place for place, found in enumerate(texts) if found == wanted), None)


def _normal_form(text: str | None) -> str | None:
    return None if text is None else normal_form(text)


def _changed(ours: Ids, theirs: Ids) -> int:
    """Ids of `ours` between what both sides begin with and what both end with."""
    begin = common_prefix(ours, theirs)
    end = common_prefix(ours[begin:][::-1], theirs[begin:][::-1])
    return len(ours) - begin - end
