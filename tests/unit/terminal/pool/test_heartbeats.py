"""Heartbeats of one client to several servers: what one of them does or answers keeps no other's leases waiting."""

from __future__ import annotations

import asyncio
import logging

import httpx
import pytest

from t1cli.terminal.sandbox.pool.calls import ServerCalls
from t1cli.terminal.sandbox.pool.leasing import Leased, Leasing
from t1cli.terminal.sandbox.sandbox import Placement

PATIENCE_SECONDS = 300.0


def test_a_server_that_hangs_and_one_that_answers_nonsense_end_no_heartbeat(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    beats = {"hangs": 0, "odd": 0, "sound": 0}

    async def answer(request: httpx.Request) -> httpx.Response:
        host = request.url.host
        beats[host] += 1
        if host == "hangs":
            await asyncio.Event().wait()
        # No list of lease ids can hold a list: the reader trips over it.
        return httpx.Response(200, json={"ok": True, "unknown": [[1]] if host == "odd" else []})

    async def whole() -> None:
        calls = [ServerCalls(f"http://{host}", transport=httpx.MockTransport(answer)) for host in beats]
        leasing = Leasing(calls, wait_seconds=1.0, lease_seconds=1.0)
        for server in leasing.servers:
            server.is_ours, server.idle_seconds = True, 0.05
            leasing._held[server.calls.url] = Leased(server.calls.url, "lease", server, Placement("task", "group"))
        beating = asyncio.create_task(leasing._beat())
        async with asyncio.timeout(PATIENCE_SECONDS):
            while min(beats["odd"], beats["sound"]) < 5:
                assert not beating.done()
                await asyncio.sleep(0.01)
        assert beats["hangs"] == 1
        beating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await beating
        await asyncio.gather(*(one.close() for one in calls))

    asyncio.run(whole())
    assert "the answer to a heartbeat of http://odd is none" in caplog.text
    assert "http://hangs" not in caplog.text and "http://sound" not in caplog.text
