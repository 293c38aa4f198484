"""Ids as text, id by id: where the harness's copy of a reply may have other ids but must say the same.

Special ids are no text. Each becomes an atom that no text contains, so that the literal characters `<|im_end|>` never
equal the special id of that name.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate
from typing import Final, Protocol, runtime_checkable

LOOKBACK: Final = 4
"""Ids to decode before the first one of interest: no UTF-8 character has more bytes."""


class TextSpace(Protocol):
    """What a tokenizer's ids say."""

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The text that each id adds, one entry per id; their concatenation is the text of all.

        A character of several ids belongs to the last of them. Bytes that are no UTF-8 become U+FFFD. A special id
        is `atom(id)`.
        """
        ...


@runtime_checkable
class HasText(Protocol):
    """A template or tokenizer that knows what single ids say."""

    @property
    def text(self) -> TextSpace | None:
        """Its text space; None when it cannot tell."""
        ...


class ByteText:
    """The TextSpace of a byte-level vocabulary: every ordinary id stands for fixed bytes."""

    def __init__(self, bytes_of: Callable[[int], bytes], special_ids: Collection[int]) -> None:
        self._bytes_of, self._special_ids = bytes_of, frozenset(special_ids)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The text that each id adds."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        pieces: list[str] = []
        for token in map(int, ids):
            if token in self._special_ids:
                pieces.append(decoder.decode(b"", final=True) + atom(token))
                decoder.reset()
            else:
                pieces.append(decoder.decode(self._bytes_of(token)))
        if pieces:
            pieces[-1] += decoder.decode(b"", final=True)
        return pieces


def atom(special_id: int) -> str:
    """A special id in text space. Lone surrogates fence it: decoded text never has any."""
    return f"\ud800{special_id}\udc00"


def reply_pieces(text: str, offsets: Sequence[int], atoms: Sequence[str]) -> list[str]:
    """The text that each sampled id left in the reply, by the generation-time offset map.

    `atoms` holds the atom of each special id and "" for the others. Raises ValueError for offsets that are no map.
    """
    starts = [0, *offsets][: len(offsets)]
    if len(offsets) != len(atoms) or any(a > b for a, b in zip(starts, offsets, strict=True)):
        raise ValueError(f"{len(offsets)} offsets for {len(atoms)} sampled ids, expected one each, never decreasing")
    if offsets and offsets[-1] > len(text):
        raise ValueError(f"the last offset is {offsets[-1]}, behind the end of a text of {len(text)} characters")
    return [text[a:b] + mark for a, b, mark in zip(starts, offsets, atoms, strict=True)]


def normal_form(text: str) -> str:
    """What remains when white space and Unicode composition are left aside."""
    return "".join(unicodedata.normalize("NFC", text).split())


def boundary_after(pieces: Sequence[str], length: int) -> int | None:
    """How many of `pieces` have `length` characters together; None when no piece ends there."""
    ends = accumulate(map(len, pieces), initial=0)
    return next((count for count, end in enumerate(ends) if end == length), None)
