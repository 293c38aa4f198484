"""The text space of a byte-level vocabulary as Hugging Face's tokenizers store it (Qwen, GLM, DeepSeek, Llama 3).

Such a vocabulary writes each byte as one printable letter (GPT-2's table): bytes that are printable Latin-1 as
themselves, the 68 others as the letters from U+0100 on, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache, lru_cache

from t1cli.terminal.trajectory.text_space import ByteText

_KEPT_IDS = 1 << 18
"""Decoded ids that stay in memory; the largest vocabularies have about this many."""


def byte_level_text(
    token_of: Callable[[int], str | None], *, added: Mapping[int, str], special_ids: Collection[int]
) -> ByteText:
    """The text space over a vocabulary. `token_of`: an id as the vocabulary writes it; `added`: added tokens' text.

    Added tokens that are not special (such as `<think>`) are text; an id beyond the vocabulary says nothing.
    """

    @lru_cache(maxsize=_KEPT_IDS)
    def bytes_of(token: int) -> bytes:
        if token in added:
            return added[token].encode()
        letters = byte_of_letter()
        return b"".join(letters.get(letter, letter.encode()) for letter in token_of(token) or "")

    return ByteText(bytes_of, special_ids)


@cache
def byte_of_letter() -> dict[str, bytes]:
    """GPT-2's table (`bytes_to_unicode` in openai/gpt-2, `src/encoder.py`), read backwards."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [value for value in range(256) if value not in set(printable)]
    shown = {chr(value): bytes([value]) for value in printable}
    return shown | {chr(0x100 + place): bytes([value]) for place, value in enumerate(hidden)}
