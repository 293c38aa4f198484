"""Messages between a provider and its worker: four bytes of length, then one JSON object."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

MAX_BYTES: Final = 64 * 1024 * 1024
"""Of one message; a file or an output is bounded far below this."""

_HEAD_BYTES: Final = 4


def framed(message: Mapping[str, Any]) -> bytes:
    """A message as it is sent. Raises ValueError for one above MAX_BYTES."""
    body = json.dumps(message).encode()
    if len(body) > MAX_BYTES:
        raise ValueError(f"a message of {len(body)} bytes, at most {MAX_BYTES}")
    return len(body).to_bytes(_HEAD_BYTES, "big") + body


async def frames(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """Messages until the other side is gone. Raises ValueError for something that is no message."""
    while True:
        try:
            size = int.from_bytes(await reader.readexactly(_HEAD_BYTES), "big")
            if size > MAX_BYTES:
                raise ValueError(f"a message of {size} bytes, at most {MAX_BYTES}")
            body = await reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        message = json.loads(body)
        if not isinstance(message, dict):
            raise ValueError("a message that is no object")
        yield message
