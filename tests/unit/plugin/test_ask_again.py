"""Replies that a weight push cuts off: asked for again, and every token of them counted once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from t1cli.plugin.ask_again import AskAgain
from t1cli.terminal.harness.engine import Generation, Sampling
from t1cli.terminal.rollout.metered import MeteredEngine


class PushedEngine:
    """Ends its replies as it is told, with three ids each; `lost` are tokens that nobody received."""

    def __init__(self, reasons: Sequence[str], lost: int = 0) -> None:
        self.reasons, self.lost = list(reasons), lost
        self.rids: list[str] = []

    async def generate(self, prompt_ids: tuple[int, ...], *, rid: str, sampling: Sampling) -> Generation:
        self.rids.append(rid)
        return Generation((1, 2, 3), (-1.0,) * 3, None, self.reasons[len(self.rids) - 1], len(self.rids))

    def take_lost(self, rid: str) -> int:
        return self.lost if rid == self.rids[-1] else 0


def asked(engine: PushedEngine, *, unless: bool = False) -> tuple[Generation, AskAgain, MeteredEngine]:
    again = AskAgain(engine, unless=lambda: unless)
    metered = MeteredEngine(again)
    reply = asyncio.run(metered.generate((0,), rid="t-t0", sampling=Sampling(3)))
    return reply, again, metered


@pytest.mark.parametrize("pushes", [0, 1, 3, 8])
def test_a_reply_is_the_one_that_no_push_cut_off_and_the_others_are_booked(pushes: int) -> None:
    engine = PushedEngine(["abort"] * pushes + ["stop"], lost=5)
    reply, again, metered = asked(engine)
    assert reply.finish_reason == "stop" and reply.weight_version == pushes + 1
    assert len(set(engine.rids)) == pushes + 1, "an engine may still know a request that was cut off"
    assert metered.take_lost("t-t0") == 3 * pushes + 5
    assert again.cut_off_tokens == 3 * pushes
    assert metered.sampled_tokens == 3 + 3 * pushes + 5


def test_an_aborted_reply_that_nobody_wants_is_final() -> None:
    engine = PushedEngine(["abort"])
    reply, again, metered = asked(engine, unless=True)
    assert reply.finish_reason == "abort" and again.cut_off_tokens == 0 and metered.sampled_tokens == 3


def test_an_engine_that_only_aborts_is_not_asked_for_ever() -> None:
    engine = PushedEngine(["abort"] * 100)
    reply, again, metered = asked(engine)
    assert reply.finish_reason == "abort" and len(engine.rids) == 9
    assert metered.take_lost("t-t0") == again.cut_off_tokens == 24
    assert metered.sampled_tokens == 27
