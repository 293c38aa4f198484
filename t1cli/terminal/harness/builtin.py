"""The built-in agent loop: one shell command per reply, its output as the next observation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from t1cli.terminal.harness.agent import EXEC_GRACE_SECONDS, TurnNote
from t1cli.terminal.harness.chat_template import ChatTemplate, Conversation, Reply
from t1cli.terminal.harness.engine import Engine, EngineError, Generation, Sampling
from t1cli.terminal.harness.hold import hold_of
from t1cli.terminal.harness.limits import Limits
from t1cli.terminal.harness.observation import fitted, observation_text
from t1cli.terminal.harness.summary import Summarizer, SummaryCounts
from t1cli.terminal.rollout.outcome import StopReason
from t1cli.terminal.sandbox.sandbox import Sandbox, SandboxError
from t1cli.terminal.seeds import request_seed
from t1cli.terminal.trajectory.row import Turn


class BuiltinAgent:
    """One trial's agent. What it has in public stays readable when `run` fails or is cancelled."""

    def __init__(
        self,
        *,
        engine: Engine,
        sandbox: Sandbox,
        template: ChatTemplate,
        limits: Limits,
        trial_id: str,
        seed: int,
        on_turn: Callable[[Turn], None] = lambda turn: None,
    ) -> None:
        """`on_turn` gets every turn once, as it arrives."""
        self.turns: list[Turn] = []
        """What was sampled; prompts, log-probs and routing go to `on_turn` and are not kept."""
        self.notes: list[TurnNote] = []
        self.lost_tokens = 0
        """Tokens sampled for replies that never became a turn."""
        self._engine, self._sandbox, self._template = engine, sandbox, template
        self._limits, self._trial_id, self._seed = limits, trial_id, seed
        self._on_turn = on_turn
        self._hold = hold_of(engine)
        self._prompt_tokens = 0
        self._malformed_in_a_row = 0
        self._summarizer = Summarizer(template, limits)

    @property
    def summaries(self) -> SummaryCounts:
        """What became of the trial's summaries."""
        return self._summarizer.counts

    async def run(self, instruction: str, *, deadline: float) -> StopReason:
        """Play until a stop; `deadline` is in the event loop's time, less what was spent on hold.

        Raises EngineError and SandboxError.
        """
        conversation = self._template.begin(instruction)
        while (stop := self._out_of_budget(len(conversation.prompt_ids), deadline)) is None:
            generation = await self._reply(conversation.prompt_ids, deadline)
            if generation is None:
                return StopReason.WALL
            stop, observation = await self._act(generation, deadline)
            if stop is not None:
                return stop
            conversation.observe(generation.sampled_ids, observation)
            short = await self._kept_short(instruction, conversation, deadline)
            if short is None:
                return StopReason.WALL
            conversation = short
        return stop

    async def _kept_short(self, instruction: str, conversation: Conversation, deadline: float) -> Conversation | None:
        """The chat as it is, or a new one with its summary; None when the deadline came first."""
        # A summary is a turn too, and of no use where it would be the last one.
        turns_left = self._limits.max_turns - len(self.turns)
        if turns_left < 2 or not self._summarizer.is_due(len(conversation.prompt_ids)):
            return conversation
        ask = partial(self._summary, deadline)
        return await self._summarizer.compacted(instruction, conversation, ask=ask, told=self._told())

    async def _summary(
        self, deadline: float, ids: tuple[int, ...], name: str, max_new_tokens: int
    ) -> Generation | None:
        generation = await self._sampled(ids, deadline, name=name, max_new_tokens=max_new_tokens)
        if generation is not None:
            self._note(generation, self.turns[-1].text, kind="summary")
        return generation

    def _told(self) -> Iterator[str]:
        """Every observation and reply up to now, the latest first."""
        notes = tuple(self.notes)
        return (said for note in reversed(notes) for said in (note.observation, note.reply) if said)

    def _out_of_budget(self, prompt_tokens: int, deadline: float) -> StopReason | None:
        if len(self.turns) >= self._limits.max_turns:
            return StopReason.TURNS
        if prompt_tokens + self._limits.max_new_tokens_per_turn > self._limits.context_tokens:
            return StopReason.CONTEXT
        if self._hold.clock() >= deadline:
            return StopReason.WALL
        return None

    async def _reply(self, ids: tuple[int, ...], deadline: float) -> Generation | None:
        """The next reply, or None when the deadline came first."""
        limit = self._limits.max_new_tokens_per_turn
        return await self._sampled(ids, deadline, name=f"t{len(self.turns)}", max_new_tokens=limit)

    async def _sampled(
        self, ids: tuple[int, ...], deadline: float, *, name: str, max_new_tokens: int
    ) -> Generation | None:
        """A reply under a name of its own within the trial, recorded as a turn; None when the deadline came first."""
        rid = f"{self._trial_id}-{name}"
        sampling = Sampling(
            max_new_tokens=max_new_tokens,
            temperature=self._limits.temperature,
            top_p=self._limits.top_p,
            stop_ids=self._template.stop_ids,
            seed=request_seed(self._seed, name.removeprefix("t")),
        )
        try:
            async with self._hold.until(deadline):
                generation = await self._engine.generate(ids, rid=rid, sampling=sampling)
        except TimeoutError:
            return None
        finally:
            self.lost_tokens += self._engine.take_lost(rid)
        if generation.finish_reason not in ("stop", "length") or not generation.sampled_ids:
            self.lost_tokens += len(generation.sampled_ids)
            raise EngineError("engine_aborted", f"finish reason {generation.finish_reason}")
        return self._recorded(ids, generation)

    def _recorded(self, ids: tuple[int, ...], generation: Generation) -> Generation:
        """Hand the reply on as a turn. Its routing repeats that of the whole prompt: no later wait may hold it."""
        turn = _turn(ids, generation, self._template.decode(generation.sampled_ids))
        self._on_turn(turn)
        self._prompt_tokens = len(ids)
        self.turns.append(replace(turn, prompt_ids=(), log_probs=(), routed_experts=None))
        return replace(generation, routed_experts=None)

    async def _act(self, generation: Generation, deadline: float) -> tuple[StopReason | None, str]:
        """Do what the last reply says: a reason to stop, or the next observation."""
        text = self.turns[-1].text
        if generation.finish_reason == "length":
            self._note(generation, text, kind="cut")
            return StopReason.REPLY_CUT, ""
        reply = self._template.parse_reply(text)
        if reply.kind == "command":
            self._malformed_in_a_row = 0
            return await self._run_command(generation, reply, text, deadline)
        if reply.kind == "done":
            self._note(generation, text, kind="done")
            return StopReason.DONE, ""
        return self._refuse(generation, reply, text)

    async def _run_command(
        self, generation: Generation, reply: Reply, text: str, deadline: float
    ) -> tuple[StopReason | None, str]:
        left_seconds = deadline - self._hold.clock()
        timeout_seconds = min(self._limits.command_timeout_seconds, left_seconds)
        if timeout_seconds <= 0:
            self._note(generation, text, kind="command")
            return StopReason.WALL, ""
        try:
            async with asyncio.timeout(timeout_seconds + EXEC_GRACE_SECONDS):
                result = await self._sandbox.exec(reply.command, timeout_seconds=timeout_seconds)
        except TimeoutError as error:
            raise SandboxError(f"no answer {EXEC_GRACE_SECONDS:g} s after the command's time limit") from error
        observation = fitted(
            observation_text(result, timeout_seconds=timeout_seconds),
            template=self._template,
            max_tokens=self._limits.observation_tokens,
        )
        self._note(generation, text, kind="command", observation=observation, ran=(result.exit_code, result.seconds))
        cut_by_wall = result.timed_out and timeout_seconds < self._limits.command_timeout_seconds
        return (StopReason.WALL if cut_by_wall else None), observation

    def _refuse(self, generation: Generation, reply: Reply, text: str) -> tuple[StopReason | None, str]:
        """A reply that nobody can read is the policy's own failure: it is told so and goes on, for a while."""
        self._malformed_in_a_row += 1
        observation = fitted(
            f"malformed reply: {reply.why}", template=self._template, max_tokens=self._limits.observation_tokens
        )
        self._note(generation, text, kind="malformed", observation=observation)
        over = self._malformed_in_a_row >= self._limits.max_malformed_in_a_row
        return (StopReason.MALFORMED if over else None), observation

    def _note(
        self,
        generation: Generation,
        text: str,
        *,
        kind: str,
        observation: str = "",
        ran: tuple[int, float] | None = None,
    ) -> None:
        note = TurnNote(
            reply=text,
            kind=kind,
            observation=observation,
            exit_code=ran[0] if ran else None,
            prompt_tokens=self._prompt_tokens,
            sampled_tokens=len(generation.sampled_ids),
            engine_seconds=generation.seconds,
            command_seconds=ran[1] if ran else 0.0,
        )
        self.notes.append(note)


def _turn(ids: tuple[int, ...], generation: Generation, text: str) -> Turn:
    return Turn(
        prompt_ids=ids,
        sampled_ids=generation.sampled_ids,
        log_probs=generation.log_probs,
        routed_experts=generation.routed_experts,
        text=text,
        finish_reason=generation.finish_reason,
        weight_version=generation.weight_version,
    )
