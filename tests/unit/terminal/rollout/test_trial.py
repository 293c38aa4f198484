"""One trial: what is scored, what is lost and to whom, and that no moment of cancellation leaves a sandbox."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from t1cli.terminal.harness.engine import EngineError
from t1cli.terminal.rollout.budgets import Budgets, budgets_of
from t1cli.terminal.rollout.outcome import Boundary, StopReason
from t1cli.terminal.rollout.result import TrialPlan, TrialResult
from t1cli.terminal.rollout.trial import Trial
from t1cli.terminal.sandbox.sandbox import SandboxError
from t1cli.terminal.trajectory.routing import MissingRouting


def play(doubles: SimpleNamespace, trials_dir: Path, engine: object, **changes: object) -> tuple[TrialResult, object]:
    task = changes.pop("task", None) or doubles.task_named("one")
    world = doubles.make_world(engine, trials_dir, **changes)
    plan = TrialPlan(task=task, trial_id="run1-t", group_id=7, sample=0, attempt=0, seed=1)
    result = asyncio.run(Trial(world, plan, engine).run())
    assert not world.provider.alive
    assert world.slots.in_use == 0 and world.verifiers.in_use == 0
    return result, world


@pytest.mark.catalogue("F1")
def test_a_scored_trial_has_one_row_whose_loss_is_on_the_sampled_ids(doubles: SimpleNamespace, tmp_path: Path) -> None:
    engine = doubles.ScriptedEngine(lambda _: ["echo a", "echo b"])
    result, world = play(doubles, tmp_path, engine)
    assert result.outcome.scored and result.outcome.stop is StopReason.DONE
    (row,) = result.rows
    text_of_loss = bytes(t for t in row.tokens[row.loss_mask == 1] if t < 256).decode()
    assert text_of_loss == "echo aecho b"
    assert row.reward == pytest.approx(2 / 20) and row.group_id == 7
    assert [note.observation for note in result.notes] == ["ran echo a", "ran echo b", ""]
    assert world.provider.made["run1-t"].commands == ["echo a", "echo b"]
    assert set(result.seconds) >= {"queue", "create", "agent", "grade", "close"}


@pytest.mark.parametrize(
    ("script", "changes", "stop"),
    [
        (["echo"] * 9, {}, StopReason.TURNS),
        (["x" * 90], {}, StopReason.REPLY_CUT),
        (["??", "??", "??"], {}, StopReason.MALFORMED),
        (["??", "echo", "??", "??"], {}, StopReason.DONE),
        (["echo " + "y" * 50] * 9, {"context_tokens": 300}, StopReason.CONTEXT),
    ],
)
def test_budgets_of_the_policy_stay_trainable(
    doubles: SimpleNamespace, tmp_path: Path, script: list[str], changes: dict[str, int], stop: StopReason
) -> None:
    limits = doubles.replace(doubles.LIMITS, **changes)
    result, _ = play(doubles, tmp_path, doubles.ScriptedEngine(lambda _: script), limits=limits)
    assert result.outcome.scored and result.outcome.stop is stop
    assert len(result.rows) == 1 and result.rows[0].loss_mask.sum() == result.sampled_tokens
    assert len(result.rows[0].tokens) <= limits.context_tokens
    assert result.rows[0].stop == stop.value


def test_the_wall_cuts_the_agent_and_leaves_time_to_grade(doubles: SimpleNamespace, tmp_path: Path) -> None:
    def short(task: object) -> Budgets:
        return Budgets(120.0, agent_seconds=0.5, verifier_seconds=60.0, grading_seconds=60.0, shortened=False)

    engine = doubles.ScriptedEngine(lambda _: ["echo a", "slow 600"])
    result, _ = play(doubles, tmp_path, engine, budgets=short)
    assert result.outcome.scored and result.outcome.stop is StopReason.WALL
    assert result.seconds["agent"] >= 0.4

    async def hang(instruction: str, turn: int) -> None:
        await asyncio.sleep(600 if turn else 0)

    engine = doubles.ScriptedEngine(lambda _: ["echo a"], before=hang)
    result, _ = play(doubles, tmp_path, engine, budgets=short)
    assert result.outcome.stop is StopReason.WALL and result.lost_tokens == engine.lost_when_cancelled


async def raise_after_one_turn(instruction: str, turn: int) -> None:
    if turn == 1:
        raise EngineError("engine_http_500", "boom")


def failing_grader(error: BaseException) -> object:
    async def grade(task: object, sandbox: object, *, trial_dir: Path, timeout_seconds: float) -> object:
        raise error

    return grade


@pytest.mark.parametrize(
    ("fault", "boundary", "cause"),
    [
        ("create", Boundary.PROVIDER, "sandbox_create"),
        ("create_hangs", Boundary.PROVIDER, "create_timeout"),
        ("exec", Boundary.SANDBOX, "sandbox_agent"),
        ("engine", Boundary.HARNESS, "engine_http_500"),
        ("engine_aborts", Boundary.HARNESS, "engine_aborted"),
        ("verifier", Boundary.VERIFIER, "grade_RuntimeError"),
        ("verifier_hangs", Boundary.VERIFIER, "grade_timeout"),
        ("sandbox_dies_in_grading", Boundary.SANDBOX, "sandbox_grade"),
        ("no_turn", Boundary.BUDGET, "prompt_over_context"),
    ],
)
def test_an_infrastructure_failure_has_a_boundary_and_a_cause_and_no_reward(
    doubles: SimpleNamespace, tmp_path: Path, fault: str, boundary: Boundary, cause: str
) -> None:
    engine = doubles.ScriptedEngine(lambda _: ["fail now" if fault == "exec" else "echo a"])
    changes: dict[str, object] = {}
    if fault == "create":
        changes["provider"] = doubles.MemoryProvider(fail_creations=lambda name: True)
    elif fault == "create_hangs":
        changes |= {"provider": doubles.MemoryProvider(create_seconds=0.2), "create_seconds": 0.05}
    elif fault == "engine":
        engine.before = raise_after_one_turn
    elif fault == "engine_aborts":
        engine.finish_reason = "abort"
    elif fault == "verifier":
        changes["grade"] = failing_grader(RuntimeError("killed"))
    elif fault == "verifier_hangs":
        changes["grade"] = failing_grader(TimeoutError())
    elif fault == "sandbox_dies_in_grading":
        changes["grade"] = failing_grader(SandboxError("gone"))
    elif fault == "no_turn":
        changes["limits"] = doubles.replace(doubles.LIMITS, context_tokens=10)
    result, _ = play(doubles, tmp_path, engine, **changes)
    assert not result.outcome.scored and not result.outcome.trainable
    assert (result.outcome.boundary, result.outcome.cause) == (boundary, cause)
    assert result.reward is None and result.rows == ()


@pytest.mark.catalogue("F4")
def test_routing_that_is_missing_aborts_instead_of_dropping_the_trial(doubles: SimpleNamespace, tmp_path: Path) -> None:
    engine = doubles.ScriptedEngine(lambda _: ["echo a"], routing=False)
    with pytest.raises(MissingRouting):
        play(doubles, tmp_path, engine)
    result, _ = play(doubles, tmp_path, engine, routing="kept")
    assert result.rows[0].routed_experts is None


def test_cancellation_at_every_moment_leaves_no_sandbox_and_closes_once(
    doubles: SimpleNamespace, tmp_path: Path
) -> None:
    """The trial is cancelled after 0, 1, 2, … steps of the event loop, until it survives to its end."""

    async def cancelled_after(steps: int) -> tuple[bool, TrialResult]:
        engine = doubles.ScriptedEngine(lambda _: ["echo a", "echo b"])
        world = doubles.make_world(engine, tmp_path)
        plan = TrialPlan(task=doubles.task_named("one"), trial_id="t", group_id=0, sample=0, attempt=0, seed=1)
        trial = Trial(world, plan, engine)
        task = asyncio.create_task(trial.run())
        for _ in range(steps + 1):
            await asyncio.sleep(0)
        finished = task.done()
        trial.cancel(task, "test")
        result = await task
        assert not world.provider.alive, f"cancelled after {steps} steps"
        assert world.slots.in_use == 0 and world.verifiers.in_use == 0
        assert result.sampled_tokens + result.lost_tokens == engine.sampled
        return finished, result

    for steps in range(400):
        finished, result = asyncio.run(cancelled_after(steps))
        if finished:
            assert result.outcome.scored
            break
        assert result.outcome.boundary is Boundary.CANCELLED and result.outcome.cause == "test"
    else:
        pytest.fail("the trial never finished")
    assert steps > 10, "the trial has at least a dozen moments to be cancelled in"


def test_a_sandbox_whose_creation_is_cancelled_is_still_destroyed(doubles: SimpleNamespace, tmp_path: Path) -> None:
    async def run() -> None:
        engine = doubles.ScriptedEngine(lambda _: [])
        world = doubles.make_world(engine, tmp_path, provider=doubles.MemoryProvider(create_seconds=0.05))
        plan = TrialPlan(task=doubles.task_named("one"), trial_id="t", group_id=0, sample=0, attempt=0, seed=1)
        task = asyncio.create_task(Trial(world, plan, engine).run())
        while not world.provider.alive:
            await asyncio.sleep(0)
        task.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert world.provider.made and not world.provider.alive

    asyncio.run(run())


def test_environment_files_are_placed_before_the_agent_starts(doubles: SimpleNamespace, tmp_path: Path) -> None:
    task = doubles.task_named("one", environment=tmp_path)
    _, world = play(doubles, tmp_path, doubles.ScriptedEngine(lambda _: ["ls"]), task=task)
    assert world.provider.made["run1-t"].placed == [(tmp_path, "/work")]


def test_an_override_that_shortens_what_a_task_declares_is_marked(doubles: SimpleNamespace) -> None:
    task = doubles.task_named("one", agent_timeout_seconds=900.0, verifier_timeout_seconds=60.0)
    assert not budgets_of(task, wall_seconds=3600, override_seconds=None).shortened
    assert budgets_of(task, wall_seconds=3600, override_seconds=450).shortened
    by_wall = budgets_of(task, wall_seconds=600, override_seconds=None)
    assert by_wall.shortened and by_wall.agent_seconds == 540
    heavy_verifier = budgets_of(task, wall_seconds=100, override_seconds=None)
    assert heavy_verifier.agent_seconds == 75 and heavy_verifier.grading_seconds == 25
