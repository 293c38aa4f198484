"""Groups through the custom generate function, in the order of their entries' numbers, as slime's own loop has it."""

from __future__ import annotations

import asyncio
from typing import Any

from slime.utils.misc import load_function


def generate_rollout_fully_async(args: Any, rollout_id: int, data_buffer: Any, evaluation: bool = False) -> Any:
    if evaluation:
        raise ValueError("no evaluation here")
    return asyncio.run(_groups(args, data_buffer))


async def _groups(args: Any, data_buffer: Any) -> list[list[Any]]:
    generate = load_function(args.custom_generate_function_path)
    asked = data_buffer.get_samples(args.rollout_batch_size)
    done = [await asyncio.gather(*(generate(args, s, {}, evaluation=False) for s in group)) for group in asked]
    return sorted((list(group) for group in done), key=_number)


def _number(group: list[Any]) -> int:
    # An entry is a Sample or a list of them; either way slime asks it for its `index`.
    return next(int(found) for entry in group if (found := getattr(entry, "index", None)) is not None)
