"""One server per event loop, for as long as somebody in that loop uses it."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import httpx
import pytest

from t1cli.terminal.harness.session.shared_server import SharedServer


async def answers(url: str) -> bool:
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        return (await http.get(f"{url}/v1/models")).status_code == 404


def test_users_of_a_loop_share_a_server_that_ends_with_the_last_of_them(chat: SimpleNamespace) -> None:
    shared, renderer = SharedServer(), chat.renderer_for("qwen3")

    async def run() -> None:
        async with shared.held(renderer) as first:
            async with shared.held(renderer) as second:
                assert second is first and await answers(first.url)
            assert await answers(first.url), "one of two has left"
        with pytest.raises(httpx.ConnectError):
            await answers(first.url)
        async with shared.held(renderer) as later:
            assert later is not first and await answers(later.url)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


def test_two_loops_at_the_same_time_have_servers_of_their_own(chat: SimpleNamespace) -> None:
    shared, renderer = SharedServer(), chat.renderer_for("qwen3")
    meeting = threading.Barrier(2, timeout=120)
    urls: list[str] = []

    async def run() -> None:
        async with shared.held(renderer) as server:
            urls.append(server.url)
            await asyncio.to_thread(meeting.wait)
            assert await answers(server.url)

    threads = [threading.Thread(target=lambda: asyncio.run(run())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(set(urls)) == 2


def test_a_server_that_outlives_its_sessions_keeps_nothing_of_them(
    chat: SimpleNamespace, benches: SimpleNamespace
) -> None:
    renderer = chat.renderer_for("qwen3")
    parts = {"limits": benches.LIMITS, "trial_id": "trial", "seed": 1, "on_turn": lambda turn: None}

    async def run() -> None:
        async with SharedServer().held(renderer) as server:
            engine = benches.ScriptedModel(renderer, iter([]))
            with pytest.raises(KeyError):
                async with server.open(engine=engine, **parts) as one, server.open(engine=engine, **parts) as other:
                    assert len(server.app._sessions) == 2 and one.key != other.key
                    raise KeyError
            assert server.app._sessions == {}

    asyncio.run(run())
