"""One trial's chat endpoint without any wire: requests in, replies out, every turn handed on as it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from t1cli.errors import T1Error
from t1cli.terminal.harness.chat.checkpoint_template import CannotRender
from t1cli.terminal.harness.chat.message import Message, ToolCall
from t1cli.terminal.harness.chat.renderer import Renderer
from t1cli.terminal.harness.chat.reply import ParsedReply
from t1cli.terminal.harness.engine import Engine, EngineError, Generation, Sampling
from t1cli.terminal.harness.limits import Limits
from t1cli.terminal.harness.session.chat_request import (
    CONTEXT_LENGTH,
    TURN_LIMIT,
    ChatRefusal,
    ChatRequest,
    invalid,
)
from t1cli.terminal.harness.session.history import Found, History, Node, links_of, next_link
from t1cli.terminal.harness.session.report import SessionReport, Way
from t1cli.terminal.seeds import request_seed
from t1cli.terminal.trajectory.row import Turn


@dataclass(frozen=True)
class Prompt:
    """The ids of one request and how they came about."""

    parent: Node | None
    added_ids: tuple[int, ...]
    way: Way
    found: Found | None
    links: Sequence[bytes]

    def ids(self) -> tuple[int, ...]:
        """Every id of the prompt."""
        return (*(self.parent.ids() if self.parent else ()), *self.added_ids)


@dataclass(frozen=True)
class Completion:
    """One reply, for a wire to write down."""

    number: int
    """Of the turn within the session, from 0."""
    reply: ParsedReply
    prompt_ids: tuple[int, ...]
    generation: Generation
    kept_tokens: int
    """Ids of the prompt that were there before."""

    @property
    def is_cut(self) -> bool:
        """Whether the reply ended at its limit."""
        return self.generation.finish_reason == "length"


class Session:
    """One trial's chats: it keeps the ids, renders and encodes what is new, and never what it has."""

    def __init__(
        self,
        *,
        renderer: Renderer,
        engine: Engine,
        limits: Limits,
        trial_id: str,
        seed: int,
        on_turn: Callable[[Turn], None],
    ) -> None:
        """`on_turn` gets every turn once, as it arrives: an assembler's `add`."""
        self.report = SessionReport()
        self._renderer, self._engine, self._limits = renderer, engine, limits
        self._trial_id, self._seed, self._on_turn = trial_id, seed, on_turn
        self._history = History()
        self._latest: Node | None = None
        self._requests = 0
        self._turns = 0
        """Replies that were given or are under way; one that the engine failed to give takes nothing of the budget."""
        self._running: set[asyncio.Task[Completion]] = set()
        self._closed = False
        self._fatal: T1Error | None = None

    async def complete(self, request: ChatRequest) -> Completion:
        """The reply to a request. Raises ChatRefusal and EngineError; cancelling it aborts the engine's request."""
        if self._closed:
            raise _ended()
        task = asyncio.ensure_future(self._complete(request))
        self._running.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if self._closed:
                raise _ended() from None
            raise
        finally:
            self._running.discard(task)

    async def close(self) -> SessionReport:
        """End the session: what still runs is aborted in the engine, later requests are refused.

        Raises the T1Error (missing or wrong routing) that a turn met: it aborts the rollout.
        """
        self._closed = True
        running = set(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        if self._fatal is not None:
            raise self._fatal
        return self.report

    async def _complete(self, request: ChatRequest) -> Completion:
        try:
            completion = await self._reply(request)
        except (ChatRefusal, EngineError) as problem:
            self.report.problem = problem
            raise
        self.report.problem, self.report.is_cut = None, completion.is_cut
        return completion

    async def _reply(self, request: ChatRequest) -> Completion:
        # Encoding a long text takes a while, and this loop serves many trials.
        prompt = await asyncio.to_thread(self._prompt, request)
        ids = prompt.ids()
        sampling = self._sampling(request, len(ids))
        generation = await self._generate(ids, sampling)
        number = self.report.turns
        reply = self._renderer.read(self._renderer.decode(generation.sampled_ids), request.tools)
        completion = Completion(number, _named(reply, number), ids, generation, len(ids) - len(prompt.added_ids))
        self._record(request, prompt, completion)
        return completion

    def _prompt(self, request: ChatRequest) -> Prompt:
        """Raises ChatRefusal for messages that the model's template refuses."""
        links = links_of(request.messages, request.tools)
        found = self._history.longest(links)
        if found is not None and self._renderer.is_append_only:
            new = request.messages[found.messages :]
            if not any(message.role == "assistant" for message in new):
                added = self._renderer.after(found.node.sampled_ids, new)
                return Prompt(found.node, added, "appended", found, links)
        try:
            whole = self._renderer.whole(request.messages, request.tools)
        except CannotRender as refusal:
            raise invalid(f"the model's chat template refuses these messages: {refusal}", "messages") from refusal
        return Prompt(None, whole, "rendered" if len(self._history) else "opened", found, links)

    def _sampling(self, request: ChatRequest, prompt_tokens: int) -> Sampling:
        limits = self._limits
        if self._turns >= limits.max_turns:
            raise ChatRefusal(400, TURN_LIMIT, f"the trial's {limits.max_turns} turns are used up")
        if prompt_tokens + limits.max_new_tokens_per_turn > limits.context_tokens:
            raise ChatRefusal(
                400,
                CONTEXT_LENGTH,
                f"This model's maximum context length is {limits.context_tokens} tokens: the messages take "
                f"{prompt_tokens}, a reply up to {limits.max_new_tokens_per_turn}",
                param="messages",
            )
        wanted = limits.max_new_tokens_per_turn if request.max_tokens is None else request.max_tokens
        return Sampling(
            max_new_tokens=min(wanted, limits.max_new_tokens_per_turn),
            temperature=limits.temperature,
            top_p=limits.top_p,
            stop_ids=self._renderer.stop_ids,
            seed=request_seed(self._seed, self._requests),
        )

    async def _generate(self, ids: tuple[int, ...], sampling: Sampling) -> Generation:
        rid = f"{self._trial_id}-r{self._requests}"
        self._requests += 1
        self._turns += 1
        try:
            generation = await self._engine.generate(ids, rid=rid, sampling=sampling)
        except EngineError as error:
            self._turns -= 1
            self.report.engine_errors.append(str(error))
            raise
        finally:
            self.report.lost_tokens += self._engine.take_lost(rid)
        if generation.finish_reason not in ("stop", "length") or not generation.sampled_ids:
            self._turns -= 1
            self.report.lost_tokens += len(generation.sampled_ids)
            aborted = EngineError("engine_aborted", f"finish reason {generation.finish_reason}")
            self.report.engine_errors.append(str(aborted))
            raise aborted
        return generation

    def _record(self, request: ChatRequest, prompt: Prompt, completion: Completion) -> None:
        """Hand the turn on, remember where its chat stands, count."""
        generation = completion.generation
        turn = Turn(
            prompt_ids=completion.prompt_ids,
            sampled_ids=generation.sampled_ids,
            log_probs=generation.log_probs,
            routed_experts=generation.routed_experts,
            text=self._renderer.decode(generation.sampled_ids),
            finish_reason=generation.finish_reason,
            weight_version=generation.weight_version,
        )
        try:
            self._on_turn(turn)
        except T1Error as error:
            self._fatal = self._fatal or error
            raise
        self._count(request, prompt, completion)
        node = Node(prompt.parent, prompt.added_ids, generation.sampled_ids)
        self._history.add(next_link(prompt.links[-1], completion.reply.message), node)
        self._latest = node

    def _count(self, request: ChatRequest, prompt: Prompt, completion: Completion) -> None:
        report = self.report
        report.turns += 1
        report.ways[prompt.way] += 1
        report.prompt_tokens += len(completion.prompt_ids)
        report.encoded_tokens += len(prompt.added_ids)
        report.sampled_tokens += len(completion.generation.sampled_ids)
        report.overridden.update(request.ignored)
        if prompt.way == "appended":
            report.branches += prompt.parent is not self._latest
            report.ties += prompt.found is not None and prompt.found.is_tie
        if prompt.way == "rendered" and self._renderer.is_append_only:
            report.departures.append(_departure(request.messages, prompt.found, completion.number))


def _ended() -> ChatRefusal:
    return ChatRefusal(404, "no_such_session", "there is no such session, or it has ended")


def _named(reply: ParsedReply, turn: int) -> ParsedReply:
    """The reply with ids for its calls."""
    calls = tuple(
        ToolCall(call.name, call.arguments, f"call_{turn}_{index}") for index, call in enumerate(reply.tool_calls)
    )
    return ParsedReply(reply.content, reply.reasoning, calls, reply.problem)


def _departure(messages: Sequence[Message], found: Found | None, turn: int) -> str:
    known = 0 if found is None else found.messages
    first = next((i for i in range(known, len(messages)) if messages[i].role == "assistant"), None)
    if first is None:
        return f"turn {turn}: a chat of {len(messages)} messages that begins unlike any before"
    return f"turn {turn}: message {first}, an assistant's, is not what was sampled after the {known} messages before it"
