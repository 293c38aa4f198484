"""A rollout through the HTTP client: the ledger against the server's own count, and nothing in flight afterwards."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn

from t1cli.terminal.harness.engine_client import ClientTimes, EngineClient
from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.kept import KeepRule, Kept
from t1cli.terminal.rollout.pacing import Slots
from t1cli.terminal.rollout.plan import RolloutPlan
from t1cli.terminal.trajectory.routing import encode_routing


class CountingServer:
    """Samples `echo a` replies token by token, some slowly; refuses some requests; counts all it samples."""

    def __init__(self, doubles: SimpleNamespace) -> None:
        self.doubles, self.random = doubles, random.Random(1)
        self.sampled = self.in_flight = self.refused = 0
        self.aborted: set[str] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = json.loads((await receive())["body"])
        status, answer = 200, {}
        if scope["path"] == "/abort_request":
            self.aborted.add(body["rid"])
        elif self.random.random() < 0.2:
            self.refused += 1
            status = 503
        else:
            self.in_flight += 1
            answer = await self.generate(body)
            self.in_flight -= 1
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    async def generate(self, body: dict[str, Any]) -> dict[str, Any]:
        doubles, prompt = self.doubles, tuple(body["input_ids"])
        wanted = (*b"echo a", doubles.END) if prompt.count(doubles.END) < 3 else (doubles.END,)
        slow = prompt[prompt.index(doubles.ASSISTANT) - 1] % 3 == 0
        done: list[int] = []
        while len(done) < len(wanted) and body["rid"] not in self.aborted:
            await asyncio.sleep(0.05 if slow else 0.001)
            done.append(wanted[len(done)])
            self.sampled += 1
        return {
            "output_ids": done,
            "meta_info": {
                "finish_reason": {"type": "stop" if len(done) == len(wanted) else "abort"},
                "output_token_logprobs": [[-0.1, token, None] for token in done],
                "weight_version": "7",
                "routed_experts": encode_routing(doubles.routing_of((*prompt, *done)[:-1])),
            },
        }


@pytest.fixture
def server(doubles: SimpleNamespace) -> Iterator[tuple[CountingServer, str]]:
    app = CountingServer(doubles)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        http = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=http.run, kwargs={"sockets": [sock]})
        thread.start()
        yield app, f"http://127.0.0.1:{sock.getsockname()[1]}"
        http.should_exit = True
        thread.join(120)


def test_every_token_the_server_sampled_is_in_one_account_and_no_request_outlives_the_rollout(
    doubles: SimpleNamespace, tmp_path: Path, server: tuple[CountingServer, str]
) -> None:
    app, url = server
    times = ClientTimes(generate_seconds=120, control_seconds=60, abandon_seconds=60, first_backoff_seconds=0.01)
    world = doubles.make_world(doubles.ScriptedEngine(lambda _: []), tmp_path)
    world = doubles.replace(world, connect=lambda: EngineClient(url, routing=doubles.SHAPE, times=times))
    # The last character of a task's name decides whether its replies are slow.
    tasks = tuple(doubles.task_named(f"t{index}{'abc'[index % 3]}") for index in range(12))
    result = asyncio.run(run_rollout(world, RolloutPlan(rollout_id=0, tasks=tasks, accept=6)))
    assert len(result.accepted) == 6 and app.refused > 0
    assert app.in_flight == 0, "weights may be published now"
    assert result.ledger.accounts["over_sampling"] > 0 and result.ledger.accounts["trained"] == 6 * (3 * 7 + 1)
    assert result.ledger.unaccounted == 0
    assert result.ledger.sampled == app.sampled
    assert result.metrics["terminal/failed"] == 0, "a refused request is no lost trial"
    assert {row.weight_versions for row in result.rows} == {(7,) * 4}


@pytest.mark.catalogue("S9")
def test_trials_on_hold_have_no_request_in_the_engine_and_no_token_is_counted_twice(
    doubles: SimpleNamespace, tmp_path: Path, server: tuple[CountingServer, str]
) -> None:
    app, url = server
    times = ClientTimes(generate_seconds=120, control_seconds=60, abandon_seconds=60, first_backoff_seconds=0.01)
    world = doubles.make_world(doubles.ScriptedEngine(lambda _: []), tmp_path, slots=Slots(12))
    world = doubles.replace(world, connect=lambda: EngineClient(url, routing=doubles.SHAPE, times=times))
    kept, rule = Kept(), KeepRule(most_rollouts=1, most_trials=12)

    def plan(rollout_id: int, positions: list[int], accept: int) -> RolloutPlan:
        tasks = tuple(doubles.task_named(f"t{position}{'abc'[position % 3]}") for position in positions)
        return RolloutPlan(
            rollout_id, tasks, accept, positions=tuple(positions), keep=rule if rollout_id == 0 else None
        )

    async def whole() -> None:
        first = await run_rollout(world, plan(0, list(range(12)), 6), kept=kept)
        assert app.in_flight == 0, "weights may be published now"
        sampled = app.sampled
        held = [trial for group in kept._groups for trial in group.running]
        assert first.metrics["terminal/held_trials"] == len(held) >= 1
        so_far = sum(trial.engine.sampled_tokens for trial in held)
        scored = sum(engine.sampled_tokens for group in kept._groups for _, engine in group.scored)
        assert first.ledger.sampled + so_far + scored == sampled
        left = [index for index in range(12) if index in first.unfinished]
        second = await run_rollout(world, plan(1, left, len(left)), kept=kept)
        assert first.ledger.unaccounted == second.ledger.unaccounted == 0
        assert first.ledger.sampled + second.ledger.sampled == app.sampled
        names = [trial.plan.trial_id for trial in second.accepted]
        assert {trial.plan.trial_id for trial in held} <= set(names) and len(names) == len(set(names)) == len(left)
        assert all(row.weight_versions == (7,) * 4 and row.audit.strict == 4 for row in second.rows)

    asyncio.run(whole())
