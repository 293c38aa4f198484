"""A reply that a weight push cuts off is asked for again: a push in mid-rollout costs a reply, not the trial.

slime pauses its engines for a push (v0.3.0 and v0.3.1, `update_weight_from_distributed.py`), and SGLang's pause aborts
what is being sampled. Only trials that run on over rollouts meet one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from t1cli.terminal.harness.engine import Engine, Generation, Sampling

_MOST_TIMES: Final = 8
"""Pushes that may hit one reply; more often than that the engine is at fault."""


class AskAgain:
    """Passes everything on to another engine; one trial's own."""

    def __init__(self, engine: Engine, *, unless: Callable[[], bool]) -> None:
        """`unless`: says that nobody wants the reply any more, so that an aborted one is final."""
        self._engine, self._unless = engine, unless
        self._cut_off: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self.cut_off_tokens = 0
        """Sampled for replies that were asked for again."""

    async def generate(self, prompt_ids: tuple[int, ...], *, rid: str, sampling: Sampling) -> Generation:
        """One reply, sampled throughout by the weights that its version names."""
        for times in range(_MOST_TIMES + 1):
            # The engine may still know the request that was cut off.
            self._names[rid] = f"{rid}-p{times}" if times else rid
            reply = await self._engine.generate(prompt_ids, rid=self._names[rid], sampling=sampling)
            if reply.finish_reason != "abort" or times == _MOST_TIMES or self._unless():
                break
            self._cut_off[rid] = self._cut_off.get(rid, 0) + len(reply.sampled_ids)
            self.cut_off_tokens += len(reply.sampled_ids)
        return reply

    def take_lost(self, rid: str) -> int:
        """Tokens that nobody received, those of replies that were asked for again among them."""
        return self._engine.take_lost(self._names.pop(rid, rid)) + self._cut_off.pop(rid, 0)
