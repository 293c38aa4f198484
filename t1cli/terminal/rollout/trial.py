"""One trial's life: sandbox, environment files, agent loop, grading, reward, rows; the sandbox is closed always."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from t1cli.errors import T1Error
from t1cli.terminal.harness.agent import Agent, HarnessError
from t1cli.terminal.harness.engine import Engine, EngineError
from t1cli.terminal.harness.hold import hold_of
from t1cli.terminal.harness.shielded import finish
from t1cli.terminal.harness.summary import SummaryCounts
from t1cli.terminal.rewards.failure import VerifierError
from t1cli.terminal.rewards.verdict import RewardResult, Verdict
from t1cli.terminal.rollout.budgets import Budgets
from t1cli.terminal.rollout.outcome import Boundary, Outcome, StopReason
from t1cli.terminal.rollout.result import TrialPlan, TrialResult
from t1cli.terminal.rollout.world import TrialWorld
from t1cli.terminal.sandbox.sandbox import Placement, QueuedProvider, Sandbox, SandboxError
from t1cli.terminal.trajectory.assemble import Assembler, RowLabel
from t1cli.terminal.trajectory.row import TrainingRow
from t1cli.terminal.trajectory.text_space import HasText


class TrialLost(Exception):
    """The infrastructure lost the trial: recorded with boundary and cause, never a reward."""

    def __init__(self, boundary: Boundary, cause: str, detail: str = "") -> None:
        super().__init__(f"{boundary}/{cause}: {detail}")
        self.boundary, self.cause, self.detail = boundary, cause, detail


class Trial:
    """One trial. `run` returns a result for every way a trial can end, except that MissingRouting and WrongRouting
    abort the rollout and a cancellation that did not come through `cancel` is passed on."""

    def __init__(self, world: TrialWorld, plan: TrialPlan, engine: Engine) -> None:
        self.plan = plan
        self._world, self._engine = world, engine
        self._hold = hold_of(engine)
        self._budgets: Budgets = world.budgets(plan.task)
        self._agent: Agent | None = None
        text = world.template.text if isinstance(world.template, HasText) else None
        self._assembler = Assembler(trial_id=plan.trial_id, routing=world.routing, text=text)
        self._seconds: dict[str, float] = {}
        self._close_problem = ""
        self._cancelled_for = ""

    def cancel(self, task: asyncio.Task[TrialResult], cause: str) -> None:
        """End the trial, running as `task`, with outcome cancelled."""
        self._cancelled_for = self._cancelled_for or cause
        task.cancel()

    def cancelled_result(self) -> TrialResult:
        """The result of a cancelled trial; a cancellation that did not come through `cancel` is passed on."""
        if not self._cancelled_for:
            raise asyncio.CancelledError
        return self._result(Outcome(False, StopReason.FAILED, Boundary.CANCELLED, self._cancelled_for))

    async def run(self) -> TrialResult:
        """Play the trial to its end."""
        try:
            with self._timed("queue"):
                await self._world.slots.acquire()
            try:
                return await self._live()
            finally:
                self._world.slots.release()
        except TrialLost as lost:
            outcome = Outcome(False, StopReason.FAILED, lost.boundary, lost.cause, lost.detail)
            return self._result(outcome)
        except asyncio.CancelledError:
            return self.cancelled_result()

    async def _live(self) -> TrialResult:
        with self._timed("queue"):
            await self._reserve()
        try:
            with self._timed("queue"):
                await self._world.pace.take()
            # Waiting in a pool's line is not the trial's time.
            wall_end = self._now() + self._budgets.trial_seconds
            sandbox = await self._create()
        except BaseException:
            await self._give_up()
            raise
        try:
            await self._place_environment(sandbox)
            stop = await self._play(sandbox, wall_end)
            verdict = await self._grade(sandbox, wall_end)
        finally:
            await self._close(sandbox)
        reward, rows = self._value(verdict, stop)
        return self._result(Outcome(True, stop), verdict=verdict, reward=reward, rows=rows)

    async def _reserve(self) -> None:
        provider = self._world.provider
        if isinstance(provider, QueuedProvider):
            task, group = self.plan.task, f"{self._world.run_tag}-g{self.plan.group_id}"
            placement = Placement(task.name, group, str(task.path), task.instruction)
            with self._part("reserve", Boundary.PROVIDER):
                await provider.reserve(self.plan.trial_id, owner=self._world.owner, placement=placement)

    async def _give_up(self) -> None:
        provider = self._world.provider
        if isinstance(provider, QueuedProvider):
            with suppress(SandboxError, OSError, TimeoutError):
                await finish(provider.give_up(self.plan.trial_id), seconds=self._world.close_seconds)

    async def _create(self) -> Sandbox:
        """A ready sandbox. One that is finished too late or while the trial is being cancelled is destroyed."""
        creating = asyncio.ensure_future(self._paced())
        with self._part("create", Boundary.PROVIDER):
            try:
                await asyncio.wait({creating}, timeout=min(self._world.create_seconds, self._budgets.trial_seconds))
            except asyncio.CancelledError:
                await finish(self._discard(creating), seconds=2 * self._world.close_seconds)
                raise
            if not creating.done():
                await finish(self._discard(creating), seconds=2 * self._world.close_seconds)
                raise TimeoutError
            return creating.result()

    async def _paced(self) -> Sandbox:
        await self._world.pace.settle()
        return await self._world.provider.create(self.plan.trial_id, owner=self._world.owner)

    async def _discard(self, creating: asyncio.Future[Sandbox]) -> None:
        # A creation that is cut off half-way may leave a machine behind; letting it finish and closing it does not.
        await asyncio.wait({creating}, timeout=self._world.close_seconds / 2)
        if not creating.done():
            creating.cancel()
            await asyncio.wait({creating})
        if not creating.cancelled() and creating.exception() is None:
            await self._close(creating.result())

    async def _place_environment(self, sandbox: Sandbox) -> None:
        if self.plan.task.environment is None:
            return
        with self._part("place", Boundary.SANDBOX):
            async with asyncio.timeout(self._world.create_seconds):
                await sandbox.put_directory(self.plan.task.environment, "/work", read_only=False)

    async def _play(self, sandbox: Sandbox, wall_end: float) -> StopReason:
        self._agent = self._world.make_agent(
            engine=self._engine,
            sandbox=sandbox,
            template=self._world.template,
            limits=self._world.limits,
            trial_id=self.plan.trial_id,
            seed=self.plan.seed,
            on_turn=self._assembler.add,
        )
        deadline = min(self._now() + self._budgets.agent_seconds, wall_end - self._budgets.grading_seconds)
        with self._part("agent", Boundary.SANDBOX):
            stop = await self._agent.run(self.plan.task.instruction, deadline=deadline)
        if not self._assembler.turns:
            cause = "prompt_over_context" if stop is StopReason.CONTEXT else "no_turn"
            raise TrialLost(Boundary.BUDGET, cause, f"stopped by {stop} before the first reply")
        return stop

    async def _grade(self, sandbox: Sandbox, wall_end: float) -> Verdict:
        left_seconds = wall_end - self._now()
        with self._timed("verifier_queue"):
            await self._world.verifiers.acquire()
        try:
            with self._part("grade", Boundary.VERIFIER):
                timeout_seconds = max(1.0, min(self._budgets.verifier_seconds, left_seconds))
                # The grader ends the verifier at its time limit; the outer limit is for a grader that hangs.
                async with asyncio.timeout(timeout_seconds + self._world.close_seconds):
                    return await self._world.grade(
                        self.plan.task,
                        sandbox,
                        trial_dir=self._world.trials_dir / self.plan.trial_id,
                        timeout_seconds=timeout_seconds,
                    )
        finally:
            self._world.verifiers.release()

    async def _close(self, sandbox: Sandbox) -> None:
        with self._timed("close"):
            try:
                await finish(sandbox.close(), seconds=self._world.close_seconds)
            except (SandboxError, OSError, TimeoutError) as error:
                self._close_problem = f"{type(error).__name__}: {error}"

    def _value(self, verdict: Verdict, stop: StopReason) -> tuple[RewardResult, tuple[TrainingRow, ...]]:
        taken = self._assembler
        reward = self._world.reward(verdict, turns=taken.turns, response_tokens=taken.sampled_tokens)
        label = RowLabel(
            trial_id=self.plan.trial_id,
            group_id=self.plan.group_id,
            task=self.plan.task.name,
            family=self.plan.task.family,
            reward=reward.value,
            stop=stop.value,
        )
        return reward, taken.rows(label)

    def _result(
        self,
        outcome: Outcome,
        *,
        verdict: Verdict | None = None,
        reward: RewardResult | None = None,
        rows: tuple[TrainingRow, ...] = (),
    ) -> TrialResult:
        return TrialResult(
            plan=self.plan,
            outcome=outcome,
            rows=rows,
            verdict=verdict,
            reward=reward,
            notes=tuple(self._agent.notes) if self._agent else (),
            sampled_tokens=self._assembler.sampled_tokens,
            lost_tokens=self._agent.lost_tokens if self._agent else 0,
            summaries=self._agent.summaries if self._agent else SummaryCounts(),
            seconds=dict(self._seconds),
            budget_shortened=self._budgets.shortened,
            close_problem=self._close_problem,
        )

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        started = self._now()
        try:
            yield
        finally:
            self._seconds[part] = self._seconds.get(part, 0.0) + self._now() - started

    @contextmanager
    def _part(self, part: str, boundary: Boundary) -> Iterator[None]:
        """Time one part and give its failures a boundary and a cause. The room's only catch-all."""
        with self._timed(part):
            try:
                yield
            except (TrialLost, T1Error):
                # T1Errors in here are missing or wrong routing: they abort the rollout.
                raise
            except (EngineError, HarnessError) as error:
                raise TrialLost(Boundary.HARNESS, error.cause, error.detail) from error
            except VerifierError as error:
                raise TrialLost(Boundary.VERIFIER, error.cause, error.detail) from error
            except SandboxError as error:
                raise TrialLost(_owner_of_sandbox_error(boundary), f"sandbox_{part}", str(error)) from error
            except TimeoutError as error:
                raise TrialLost(boundary, f"{part}_timeout", str(error)) from error
            except Exception as error:
                detail = "".join(traceback.format_exception(error, limit=-4))
                raise TrialLost(boundary, f"{part}_{type(error).__name__}", detail) from error

    def _now(self) -> float:
        # What a trial spends on hold between two rollouts is not its time.
        return self._hold.clock()


def _owner_of_sandbox_error(part_boundary: Boundary) -> Boundary:
    return part_boundary if part_boundary is Boundary.PROVIDER else Boundary.SANDBOX
