"""Bounded output keeps its beginning and its end, whatever the pieces."""

from __future__ import annotations

import asyncio
import re

from hypothesis import given
from hypothesis import strategies as st

from t1cli.terminal.sandbox.command import Capture
from t1cli.terminal.sandbox.limiter import LoopLimiter


@given(st.lists(st.binary(max_size=40)), st.integers(min_value=2, max_value=64))
def test_short_output_is_whole_and_long_output_says_what_is_missing(chunks: list[bytes], cap: int) -> None:
    capture = Capture(cap)
    for chunk in chunks:
        capture.add(bytes(byte % 26 + 97 for byte in chunk))
    whole = "".join(chr(byte % 26 + 97) for chunk in chunks for byte in chunk)
    text = capture.text()
    assert capture.text() == text
    half = cap // 2
    if len(whole) <= 2 * half:
        assert text == whole
    else:
        left_out = re.search(r"\n\[(\d+) bytes left out\]\n", text)
        assert left_out is not None and int(left_out[1]) == len(whole) - 2 * half
        assert text.startswith(whole[:half]) and text.endswith(whole[-half:])


def test_a_limiter_counts_per_event_loop() -> None:
    limiter = LoopLimiter(2)
    peaks: list[int] = []

    async def whole() -> None:
        running = 0

        async def one() -> None:
            nonlocal running
            async with limiter:
                running += 1
                peaks.append(running)
                await asyncio.sleep(0)
                running -= 1

        await asyncio.gather(*(one() for _ in range(8)))

    asyncio.run(whole())
    asyncio.run(whole())
    assert max(peaks) == 2 and len(peaks) == 16
