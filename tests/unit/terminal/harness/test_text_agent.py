"""A user's own agent loop in a trial: exact rows over the endpoint, budgets, deadlines, and whose failure it was."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from t1cli.terminal.harness.chat.message import Message
from t1cli.terminal.harness.chat.reply import ParsedReply
from t1cli.terminal.harness.chat_shell import line
from t1cli.terminal.harness.engine import EngineError
from t1cli.terminal.harness.hold import Hold
from t1cli.terminal.harness.text_agent import TextAgents
from t1cli.terminal.harness.text_harness import TextTrial
from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.budgets import Budgets
from t1cli.terminal.rollout.kept import KeepRule, Kept
from t1cli.terminal.rollout.metered import MeteredEngine
from t1cli.terminal.rollout.outcome import Boundary, StopReason
from t1cli.terminal.rollout.plan import RolloutPlan
from t1cli.terminal.rollout.result import TrialPlan, TrialResult
from t1cli.terminal.rollout.trial import Trial
from t1cli.terminal.sandbox.sandbox import SandboxError
from t1cli.terminal.trajectory.routing import MissingRouting

Harness = Callable[[TextTrial], Awaitable[Any]]


class ByteRenderer:
    """The byte template's framing for messages."""

    is_append_only, remark = True, ""

    def __init__(self, template: Any) -> None:
        self.template, self.stop_ids = template, template.stop_ids

    def whole(self, messages: Sequence[Message], tools: Sequence[Any]) -> tuple[int, ...]:
        ids = self.template.render_task(messages[0].content)
        for said, heard in zip(messages[1::2], messages[2::2], strict=True):
            ids = (*ids, *said.content.encode(), *self.stop_ids, *self.template.render_observation(heard.content))
        return tuple(ids)

    def after(self, sampled_ids: Sequence[int], messages: Sequence[Message]) -> tuple[int, ...]:
        end = () if sampled_ids[-1] in self.stop_ids else self.stop_ids
        return (*end, *self.template.render_observation("\n".join(message.content for message in messages)))

    def read(self, text: str, tools: Sequence[Any]) -> ParsedReply:
        return ParsedReply(text)

    def count_tokens(self, text: str) -> int:
        return len(text.encode())

    def decode(self, sampled_ids: Sequence[int]) -> str:
        return str(self.template.decode(tuple(sampled_ids)))


def rendered_template(doubles: SimpleNamespace) -> Any:
    template = doubles.ByteTemplate()
    template.renderer = ByteRenderer(template)
    return template


def world_of(doubles: SimpleNamespace, engine: Any, tmp_path: Path, harness: Harness, **changes: Any) -> Any:
    changes = {"template": rendered_template(doubles), "make_agent": TextAgents(harness), **changes}
    return doubles.make_world(engine, tmp_path, **changes)


def play(doubles: SimpleNamespace, tmp_path: Path, engine: Any, harness: Harness, **changes: Any) -> TrialResult:
    """One trial of a harness; afterwards nothing of it is left in the loop."""
    world = world_of(doubles, engine, tmp_path, harness, **changes)
    plan = TrialPlan(doubles.task_named("one"), trial_id="run1-t", group_id=7, sample=0, attempt=0, seed=1)

    async def run() -> TrialResult:
        result = await Trial(world, plan, engine).run()
        assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing of the trial still runs"
        return result

    result = asyncio.run(run())
    assert not world.provider.alive and world.slots.in_use == 0
    return result


async def say(trial: TextTrial, messages: list[dict[str, str]], **more: Any) -> httpx.Response:
    async with httpx.AsyncClient(base_url=trial.base_url, timeout=120, trust_env=False) as http:
        return await http.post("/chat/completions", json={"messages": messages, **more})


def asked(text: str = "x") -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def test_the_example_makes_the_very_rows_of_the_built_in_loop(doubles: SimpleNamespace, tmp_path: Path) -> None:
    script = ["echo a", "??", "exit 3", "echo " + "y" * 40]
    plan = TrialPlan(doubles.task_named("one"), trial_id="run1-t", group_id=7, sample=0, attempt=0, seed=1)
    built_in = doubles.make_world(doubles.ScriptedEngine(lambda _: script[:1] + script[2:]), tmp_path)
    engine = doubles.ScriptedEngine(lambda _: script[:1] + script[2:])
    expected = asyncio.run(Trial(built_in, plan, doubles.ScriptedEngine(lambda _: script[:1] + script[2:])).run())
    result = play(doubles, tmp_path, engine, line)
    assert result.outcome.stop is expected.outcome.stop is StopReason.DONE
    (row,), (same,) = result.rows, expected.rows
    assert np.array_equal(row.tokens, same.tokens) and np.array_equal(row.loss_mask, same.loss_mask)
    assert np.array_equal(row.log_probs, same.log_probs) and np.array_equal(row.routed_experts, same.routed_experts)
    assert row.audit.strict == row.audit.turns == 4 and row.audit.drifted_in_loss == 0
    assert [note.observation for note in result.notes] == [
        "$ echo a\nran echo a",
        "$ exit 3\nexit code 3",
        f"$ {script[3]}\nran {script[3]}",
        "",
    ]
    assert (result.turns, result.notes[1].exit_code) == (4, 3)


def test_a_reply_that_cannot_be_read_is_the_policys_own(doubles: SimpleNamespace, tmp_path: Path) -> None:
    async def twice_bad(trial: TextTrial) -> str:
        await say(trial, asked())
        return "malformed"

    result = play(doubles, tmp_path, doubles.ScriptedEngine(lambda _: ["??"]), twice_bad)
    assert result.outcome.scored and result.outcome.stop is StopReason.MALFORMED and len(result.rows) == 1


@pytest.mark.parametrize(
    ("script", "limits", "stop"),
    [
        (["echo"] * 9, {}, StopReason.TURNS),
        (["x" * 90], {}, StopReason.REPLY_CUT),
        (["echo " + "y" * 50] * 9, {"context_tokens": 300}, StopReason.CONTEXT),
    ],
)
@pytest.mark.parametrize("raises", [False, True], ids=["returns", "raises"])
def test_budgets_end_a_trial_that_is_scored(
    doubles: SimpleNamespace, tmp_path: Path, script: list[str], limits: dict[str, int], stop: StopReason, raises: bool
) -> None:
    async def stubborn(trial: TextTrial) -> None:
        """Goes on until it is refused, and knows no budget of its own."""
        messages = asked(trial.instruction)
        while True:
            answer = await say(trial, messages)
            if answer.is_error and not raises:
                return
            choice = answer.raise_for_status().json()["choices"][0]
            if choice["finish_reason"] == "length":
                return
            result = await trial.sandbox.exec(choice["message"]["content"])
            messages += [choice["message"], {"role": "user", "content": trial.fitted(result.output)}]

    engine = doubles.ScriptedEngine(lambda _: script)
    result = play(doubles, tmp_path, engine, stubborn, limits=doubles.replace(doubles.LIMITS, **limits))
    assert result.outcome.scored and result.outcome.stop is stop
    (row,) = result.rows
    assert len(row.tokens) <= limits.get("context_tokens", 4000) and row.loss_mask.sum() == result.sampled_tokens
    assert engine.sampled == result.sampled_tokens and row.stop == stop.value


def test_max_tokens_of_a_request_lowers_the_limit_and_never_raises_it(doubles: SimpleNamespace, tmp_path: Path) -> None:
    async def greedy(trial: TextTrial) -> None:
        await say(trial, asked("a"), max_tokens=10_000)
        await say(trial, asked("b"), max_tokens=5)

    result = play(doubles, tmp_path, doubles.ScriptedEngine(lambda _: ["z" * 500]), greedy)
    assert [note.sampled_tokens for note in result.notes] == [doubles.LIMITS.max_new_tokens_per_turn, 5]
    assert len(result.rows) == 2, "two chats of one trial are two rows of its group"


class OwnFault(KeyError):
    """Something in the user's code."""


async def fails_at_once(trial: TextTrial) -> None:
    raise OwnFault("mine")


async def fails_later(trial: TextTrial) -> None:
    await say(trial, asked())
    raise OwnFault("mine")


async def leaves_the_process(trial: TextTrial) -> None:
    await say(trial, asked())
    sys.exit(3)


async def cancels_itself(trial: TextTrial) -> None:
    await say(trial, asked())
    raise asyncio.CancelledError


async def times_out(trial: TextTrial) -> None:
    await say(trial, asked())
    raise TimeoutError


async def never_asks(trial: TextTrial) -> None:
    await trial.sandbox.exec("echo")


async def ends_in_its_own_words(trial: TextTrial) -> str:
    await say(trial, asked())
    return "great"


@pytest.mark.parametrize(
    ("harness", "cause", "tokens"),
    [
        (fails_at_once, "harness_OwnFault", 0),
        (fails_later, "harness_OwnFault", 5),
        (leaves_the_process, "harness_SystemExit", 5),
        (cancels_itself, "harness_CancelledError", 5),
        (times_out, "harness_TimeoutError", 5),
        (never_asks, "harness_no_request", 0),
        (ends_in_its_own_words, "harness_wrong_ending", 5),
    ],
)
def test_a_fault_of_the_users_code_is_the_harness_failing_and_no_reward(
    doubles: SimpleNamespace, tmp_path: Path, harness: Harness, cause: str, tokens: int
) -> None:
    result = play(doubles, tmp_path, doubles.ScriptedEngine(lambda _: ["echo"]), harness)
    assert not result.outcome.scored and result.reward is None and result.rows == ()
    assert (result.outcome.boundary, result.outcome.cause) == (Boundary.HARNESS, cause)
    assert result.sampled_tokens == tokens
    if harness is fails_later:
        assert "in fails_later" in result.outcome.detail and "mine" in result.outcome.detail


async def swallows(trial: TextTrial) -> None:
    answer = await say(trial, asked())
    assert answer.status_code == 502


async def tries_again(trial: TextTrial) -> None:
    while (await say(trial, asked())).is_error:
        pass


def test_an_engine_that_failed_loses_the_trial_unless_the_harness_got_its_reply(
    doubles: SimpleNamespace, tmp_path: Path
) -> None:
    failures = iter([EngineError("engine_timeout"), None])

    async def before(instruction: str, turn: int) -> None:
        error = next(failures)
        if error:
            raise error

    engine = doubles.ScriptedEngine(lambda _: ["echo"], before=before)
    lost = play(doubles, tmp_path, engine, swallows)
    assert (lost.outcome.boundary, lost.outcome.cause) == (Boundary.HARNESS, "engine_timeout")
    failures = iter([EngineError("engine_timeout"), None])
    assert play(doubles, tmp_path, engine, tries_again).outcome.scored


def test_a_sandbox_that_failed_loses_the_trial_whatever_the_harness_makes_of_it(
    doubles: SimpleNamespace, tmp_path: Path
) -> None:
    async def goes_on(trial: TextTrial) -> str:
        await say(trial, asked())
        with pytest.raises(SandboxError):
            await trial.sandbox.exec("fail now")
        await say(trial, asked("again"))
        return "done"

    result = play(doubles, tmp_path, doubles.ScriptedEngine(lambda _: ["echo"]), goes_on)
    assert (result.outcome.boundary, result.outcome.cause) == (Boundary.SANDBOX, "sandbox_agent")


def test_a_turn_without_its_routing_still_aborts_the_rollout(doubles: SimpleNamespace, tmp_path: Path) -> None:
    with pytest.raises(MissingRouting):
        play(doubles, tmp_path, doubles.ScriptedEngine(lambda _: ["echo"], routing=False), line)


def short_budgets(agent_seconds: float) -> Callable[[Any], Budgets]:
    return lambda task: Budgets(
        trial_seconds=240.0,
        agent_seconds=agent_seconds,
        verifier_seconds=10.0,
        grading_seconds=10.0,
        shortened=False,
    )


def test_the_deadline_ends_session_request_and_harness_and_what_was_done_is_graded(
    doubles: SimpleNamespace, tmp_path: Path
) -> None:
    left: dict[str, Any] = {}

    async def hangs_in_its_second_turn(instruction: str, turn: int) -> None:
        if turn:
            await asyncio.Event().wait()

    async def waits_for_ever(trial: TextTrial) -> None:
        choice = (await say(trial, asked())).json()["choices"][0]
        await trial.sandbox.exec(choice["message"]["content"])
        left["trial"] = trial
        try:
            await say(trial, [*asked(), choice["message"], {"role": "user", "content": "more"}])
        finally:
            left["cleaned"] = True

    engine = doubles.ScriptedEngine(lambda _: ["echo a"], before=hangs_in_its_second_turn)
    result = play(doubles, tmp_path, engine, waits_for_ever, budgets=short_budgets(3.0))
    assert result.outcome.scored and result.outcome.stop is StopReason.WALL and left["cleaned"]
    assert result.lost_tokens == engine.lost_when_cancelled, "the request under way was ended in the engine"
    assert result.sampled_tokens + result.lost_tokens == engine.sampled
    with pytest.raises(httpx.ConnectError):
        asyncio.run(say(left["trial"], asked()))


def test_a_key_opens_nothing_once_its_trial_is_over(doubles: SimpleNamespace, tmp_path: Path) -> None:
    keys: list[str] = []
    first_over = asyncio.Event()

    async def remembers(trial: TextTrial) -> str:
        assert (await say(trial, asked())).status_code == 200
        keys.append(trial.api_key)
        if len(keys) == 2:
            await first_over.wait()
            async with httpx.AsyncClient(timeout=120, trust_env=False) as http:
                tried = [
                    await http.post(
                        f"{trial.endpoint}/chat/completions",
                        json={"messages": asked()},
                        headers={"authorization": f"Bearer {key}"},
                    )
                    for key in (*keys, "guess")
                ]
            assert [answer.status_code for answer in tried] == [404, 200, 404]
        return "done"

    engine = doubles.ScriptedEngine(lambda _: ["echo"])
    world = world_of(doubles, engine, tmp_path, remembers)

    async def run() -> list[TrialResult]:
        plans = [TrialPlan(doubles.task_named("t"), f"run1-{i}", i, 0, 0, seed=i) for i in range(2)]
        second = asyncio.ensure_future(Trial(world, plans[1], engine).run())
        first = await Trial(world, plans[0], engine).run()
        first_over.set()
        return [first, await second]

    results = asyncio.run(run())
    assert [result.outcome.scored for result in results] == [True, True]
    assert len(set(keys)) == 2 and all(len(key) >= 43 for key in keys)


def test_a_harness_that_swallows_its_cancellation_is_given_up_and_said(
    doubles: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("t1cli.terminal.harness.text_agent.LAST_WORD_SECONDS", 0.05)
    over = asyncio.Event()

    async def deaf(trial: TextTrial) -> None:
        while not over.is_set():
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                continue

    world = world_of(doubles, doubles.ScriptedEngine(lambda _: []), tmp_path, deaf, budgets=short_budgets(0.1))
    plan = TrialPlan(doubles.task_named("one"), trial_id="run1-t", group_id=7, sample=0, attempt=0, seed=1)

    async def run() -> TrialResult:
        result = await Trial(world, plan, doubles.ScriptedEngine(lambda _: [])).run()
        over.set()
        return result

    result = asyncio.run(run())
    assert (result.outcome.boundary, result.outcome.cause) == (Boundary.HARNESS, "harness_not_cancellable")


def test_a_rollout_of_text_trials_closes_its_ledger_and_leaves_no_request(
    doubles: SimpleNamespace, tmp_path: Path
) -> None:
    """Some trials finish, some fail in the harness and are run again, the surplus is cancelled in mid-reply."""
    broken: set[str] = set()

    async def slow_ones_hang(instruction: str, turn: int) -> None:
        if instruction.startswith("slow") and turn:
            await asyncio.Event().wait()

    async def sometimes_broken(trial: TextTrial) -> Any:
        if trial.instruction.startswith("broken") and trial.instruction not in broken:
            broken.add(trial.instruction)
            await say(trial, asked(trial.instruction))
            raise OwnFault
        return await line(trial)

    engine = doubles.ScriptedEngine(lambda _: ["echo a", "echo b"], before=slow_ones_hang)
    world = world_of(doubles, engine, tmp_path, sometimes_broken)
    tasks = tuple(doubles.task_named(name) for name in ("a", "slow1", "broken1", "b", "slow2", "broken2"))
    plan = RolloutPlan(rollout_id=0, tasks=tasks, accept=4, first_backoff_seconds=0.01)
    result = asyncio.run(run_rollout(world, plan))
    assert {trial.plan.task.name for trial in result.accepted} == {"a", "b", "broken1", "broken2"}
    assert result.metrics["terminal/failed_by_cause/harness_OwnFault"] == 2
    assert result.ledger.unaccounted == 0 and result.ledger.sampled == engine.sampled
    assert result.ledger.accounts["infrastructure"] > 0 and result.ledger.accounts["over_sampling"] > 0
    assert len(result.rows) == 4 and result.metrics["terminal/drifted_in_loss"] == 0


def test_a_text_trial_goes_on_in_the_next_rollout_over_the_same_session(
    doubles: SimpleNamespace, tmp_path: Path
) -> None:
    """Its request is answered when the hold is over; its deadline does not come meanwhile."""

    async def whole() -> None:
        gate, names = asyncio.Event(), ("t0", "t1", "t2")

        async def slow_in_its_second_turn(instruction: str, turn: int) -> None:
            if instruction == "t2" and turn == 1:
                await gate.wait()

        engine = doubles.ScriptedEngine(lambda _: ["echo a", "echo b"], before=slow_in_its_second_turn)
        world = world_of(doubles, engine, tmp_path, line, budgets=short_budgets(30.0))
        kept, rule = Kept(), KeepRule(most_rollouts=1, most_trials=4)
        tasks = tuple(doubles.task_named(name) for name in names)
        first = await run_rollout(world, RolloutPlan(0, tasks, 2, positions=(0, 1, 2), keep=rule), kept=kept)
        assert first.kept == (2,) and len(world.provider.alive) == 1
        gate.set()
        second = await run_rollout(world, RolloutPlan(1, tasks[2:], 1, positions=(2,), keep=rule), kept=kept)
        straight = await run_rollout(world, RolloutPlan(7, tasks[2:], 1, positions=(2,)))
        (row,), (same,) = second.rows, straight.rows
        assert np.array_equal(row.tokens, same.tokens) and np.array_equal(row.loss_mask, same.loss_mask)
        assert row.audit.strict == row.audit.turns == 3
        assert first.ledger.unaccounted == second.ledger.unaccounted == 0
        assert sum(result.ledger.sampled for result in (first, second, straight)) == engine.sampled
        assert asyncio.all_tasks() == {asyncio.current_task()} and not world.provider.alive

    asyncio.run(whole())


def test_the_deadline_stands_still_on_hold(doubles: SimpleNamespace, tmp_path: Path) -> None:
    async def whole() -> None:
        playing, left = asyncio.Event(), list[float]()

        async def waits(trial: TextTrial) -> str:
            await say(trial, asked())
            playing.set()
            await go_on.wait()
            left.append(trial.seconds_left)
            return "done"

        go_on, hold = asyncio.Event(), Hold()
        engine = MeteredEngine(doubles.ScriptedEngine(lambda _: ["echo"]), hold)
        world = world_of(doubles, engine, tmp_path, waits, budgets=short_budgets(5.0))
        plan = TrialPlan(doubles.task_named("one"), trial_id="run1-t", group_id=7, sample=0, attempt=0, seed=1)
        trial = asyncio.ensure_future(Trial(world, plan, engine).run())
        await playing.wait()
        hold.begin()
        loop = asyncio.get_running_loop()
        # As if an hour of training had gone by.
        loop.time, hour = (lambda now=loop.time: now() + 3600.0), loop.time
        hold.end()
        go_on.set()
        result = await trial
        loop.time = hour
        assert result.outcome.stop is StopReason.DONE and 0 < left[0] <= 5.0

    asyncio.run(whole())
