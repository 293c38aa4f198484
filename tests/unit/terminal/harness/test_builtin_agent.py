"""The agent loop: prompts only grow, budgets hold, one command per turn, the same seed asks the same."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from types import SimpleNamespace

import pytest

from t1cli.terminal.harness.builtin import BuiltinAgent
from t1cli.terminal.rollout.outcome import StopReason
from t1cli.terminal.sandbox.sandbox import ExecResult, SandboxError


class Recorder:
    """Passes requests on and keeps prompts and sampling."""

    def __init__(self, engine: object) -> None:
        self.engine, self.prompts, self.samplings = engine, [], []

    async def generate(self, prompt_ids: tuple[int, ...], *, rid: str, sampling: object) -> object:
        self.prompts.append(prompt_ids)
        self.samplings.append(sampling)
        return await self.engine.generate(prompt_ids, rid=rid, sampling=sampling)

    def take_lost(self, rid: str) -> int:
        return self.engine.take_lost(rid)


def agent_of(
    doubles: SimpleNamespace, script: list[str], seed: int = 5, sandbox: object = None, **limits: float
) -> tuple[BuiltinAgent, Recorder]:
    engine = Recorder(doubles.ScriptedEngine(lambda _: script))
    agent = BuiltinAgent(
        engine=engine,
        sandbox=sandbox or doubles.MemorySandbox("box", doubles.MemoryProvider()),
        template=doubles.ByteTemplate(),
        limits=doubles.replace(doubles.LIMITS, **limits),
        trial_id="trial",
        seed=seed,
    )
    return agent, engine


def run(agent: BuiltinAgent, seconds: float = 120.0) -> StopReason:
    async def play() -> StopReason:
        return await agent.run("task", deadline=asyncio.get_running_loop().time() + seconds)

    return asyncio.run(play())


def test_every_prompt_is_the_one_before_it_plus_the_reply_plus_the_observation(doubles: SimpleNamespace) -> None:
    agent, engine = agent_of(doubles, ["echo a", "exit 3", "??", "echo b"])
    assert run(agent) is StopReason.DONE
    template = doubles.ByteTemplate()
    for turn, note, (prompt, following) in zip(agent.turns, agent.notes, pairwise(engine.prompts), strict=False):
        assert following == (*prompt, *turn.sampled_ids, *template.render_observation(note.observation))
    assert [note.kind for note in agent.notes] == ["command", "command", "malformed", "command", "done"]
    assert agent.notes[1].exit_code == 3 and agent.notes[2].observation == "malformed reply: unreadable"


def test_no_request_could_ever_pass_the_context_wall(doubles: SimpleNamespace) -> None:
    for wall in range(75, 400, 7):
        agent, engine = agent_of(doubles, ["echo " + "x" * 30] * 9, context_tokens=wall, max_turns=50)
        stop = run(agent)
        assert all(len(prompt) + 64 <= wall for prompt in engine.prompts)
        assert stop in (StopReason.CONTEXT, StopReason.DONE)


def test_an_observation_is_cut_to_its_budget(doubles: SimpleNamespace) -> None:
    class Loud(doubles.MemorySandbox):
        async def exec(self, command: str, **_: object) -> ExecResult:
            return ExecResult("a" * 5000 + "z" * 5000, 0, False, 0.0)

    agent, _ = agent_of(doubles, ["cat"], sandbox=Loud("box", doubles.MemoryProvider()), observation_tokens=80)
    run(agent)
    observation = agent.notes[0].observation
    assert len(observation) == 80 and observation[0] == "a" and observation[-1] == "z"


def test_the_last_turn_still_runs_its_command(doubles: SimpleNamespace) -> None:
    agent, _ = agent_of(doubles, ["echo a", "echo b", "echo c"], max_turns=2)
    assert run(agent) is StopReason.TURNS
    assert agent._sandbox.commands == ["echo a", "echo b"]


def test_a_reply_cut_at_its_limit_is_kept_and_not_run(doubles: SimpleNamespace) -> None:
    agent, _ = agent_of(doubles, ["echo " + "x" * 100])
    assert run(agent) is StopReason.REPLY_CUT
    assert agent._sandbox.commands == [] and len(agent.turns[0].sampled_ids) == 64


def test_seeds_differ_by_turn_and_repeat_with_the_trial(doubles: SimpleNamespace) -> None:
    seeds = []
    for seed in (5, 5, 6):
        agent, engine = agent_of(doubles, ["echo a"], seed=seed)
        run(agent)
        seeds.append([sampling.seed for sampling in engine.samplings])
    assert seeds[0] == seeds[1] and len({*seeds[0], *seeds[2]}) == 4


def test_a_sandbox_that_never_answers_is_lost(doubles: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(doubles.MemorySandbox):
        async def exec(self, command: str, **_: object) -> ExecResult:
            await asyncio.sleep(60)
            raise AssertionError

    monkeypatch.setattr("t1cli.terminal.harness.builtin.EXEC_GRACE_SECONDS", 0.05)
    agent, _ = agent_of(doubles, ["cat"], sandbox=Silent("box", doubles.MemoryProvider()), command_timeout_seconds=0.05)
    with pytest.raises(SandboxError):
        run(agent)
    assert len(agent.turns) == 1, "what was sampled stays on record"
