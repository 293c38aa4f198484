"""A text harness as the agent of a trial: a session of its own, its deadline, and whose failure an end was."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol, get_args, runtime_checkable

from t1cli.errors import Refused
from t1cli.terminal.harness.agent import HarnessError, TurnNote
from t1cli.terminal.harness.chat.renderer import Renderer
from t1cli.terminal.harness.chat_template import ChatTemplate, cut_middle
from t1cli.terminal.harness.engine import Engine, EngineError, Generation, Sampling
from t1cli.terminal.harness.hold import hold_of
from t1cli.terminal.harness.limits import Limits
from t1cli.terminal.harness.observation import fitted, observation_text
from t1cli.terminal.harness.session.chat_request import CONTEXT_LENGTH, TURN_LIMIT
from t1cli.terminal.harness.session.report import SessionReport
from t1cli.terminal.harness.session.server import OpenSession
from t1cli.terminal.harness.session.shared_server import SharedServer
from t1cli.terminal.harness.summary import SummaryCounts
from t1cli.terminal.harness.text_harness import Ending, HarnessSandbox, TextHarness, TextTrial
from t1cli.terminal.rollout.outcome import StopReason
from t1cli.terminal.sandbox.sandbox import ExecResult, Sandbox, SandboxError
from t1cli.terminal.trajectory.row import Turn

LAST_WORD_SECONDS = 10.0
"""What a harness that is cancelled may still take to clean up."""
_CANCELLATIONS: Final = 3
"""A harness that swallows so many is given up."""
_NOTED_CHARACTERS: Final = 4000
"""Of what one command printed, kept for the trial's log."""
_AT_BUDGET: Final[Mapping[str, StopReason]] = {TURN_LIMIT: StopReason.TURNS, CONTEXT_LENGTH: StopReason.CONTEXT}


@runtime_checkable
class HasRenderer(Protocol):
    """A chat template that can also render messages as they come over the session endpoint."""

    @property
    def renderer(self) -> Renderer:
        """The model's own framing."""
        ...


class TextAgents:
    """Makes the agents of a campaign whose trials all run one text harness."""

    def __init__(self, harness: TextHarness) -> None:
        self._harness, self._servers = harness, SharedServer()

    def __call__(
        self,
        *,
        engine: Engine,
        sandbox: Sandbox,
        template: ChatTemplate,
        limits: Limits,
        trial_id: str,
        seed: int,
        on_turn: Callable[[Turn], None],
    ) -> TextAgent:
        """The agent of one trial. Raises Refused for a template that no endpoint can render."""
        if not isinstance(template, HasRenderer):
            raise Refused(
                f"{type(template).__name__} renders no messages, so no text harness can talk to this model",
                where="rollout.harness",
                hint="--set rollout.harness=builtin",
            )
        parts = _Parts(engine, sandbox, template, template.renderer, limits, trial_id, seed)
        return TextAgent(self._harness, self._servers, parts, on_turn)


@dataclass(frozen=True)
class _Parts:
    engine: Engine
    sandbox: Sandbox
    template: ChatTemplate
    renderer: Renderer
    limits: Limits
    trial_id: str
    seed: int


@dataclass(frozen=True)
class _Ended:
    """How the harness's function ended."""

    ending: Ending | None = None
    error: BaseException | None = None
    is_late: bool = False
    """Cancelled at the deadline."""


class TextAgent:
    """One trial of a text harness. What it has in public stays readable when `run` fails or is cancelled."""

    summaries = SummaryCounts()
    """A text harness keeps its history itself."""

    def __init__(
        self, harness: TextHarness, servers: SharedServer, parts: _Parts, on_turn: Callable[[Turn], None]
    ) -> None:
        self.notes: list[TurnNote] = []
        self._harness, self._servers, self._parts, self._on_turn = harness, servers, parts, on_turn
        self._engine = _TimedEngine(parts.engine)
        self._hold = hold_of(parts.engine)
        self._report = SessionReport()

    @property
    def lost_tokens(self) -> int:
        """Tokens sampled for replies that never became a turn."""
        return self._report.lost_tokens

    async def run(self, instruction: str, *, deadline: float) -> StopReason:
        """Play the harness to its end; `deadline` is in the event loop's time, less what was spent on hold.

        Raises EngineError, SandboxError and HarnessError, and the T1Error (missing or wrong routing) of a turn.
        """
        parts = self._parts
        shell = HarnessSandbox(
            parts.sandbox,
            command_seconds=parts.limits.command_timeout_seconds,
            left=lambda: deadline - self._hold.clock(),
            on_result=self._ran,
        )
        async with (
            self._servers.held(parts.renderer) as server,
            server.open(
                engine=self._engine,
                limits=parts.limits,
                trial_id=parts.trial_id,
                seed=parts.seed,
                on_turn=self._take,
                renderer=parts.renderer,
            ) as opened,
        ):
            self._report = opened.session.report
            ended = await self._played(self._trial(instruction, opened, shell), deadline)
        return self._stop(ended, shell)

    def _trial(self, instruction: str, opened: OpenSession, shell: HarnessSandbox) -> TextTrial:
        parts = self._parts
        return TextTrial(
            instruction=instruction,
            base_url=opened.base_url,
            api_key=opened.key,
            endpoint=opened.endpoint,
            model="policy",
            sandbox=shell,
            limits=parts.limits,
            trial_id=parts.trial_id,
            fitted=partial(fitted, template=parts.template, max_tokens=parts.limits.observation_tokens),
        )

    async def _played(self, trial: TextTrial, deadline: float) -> _Ended:
        """The harness's own end, or that it was still running at the deadline."""
        playing = asyncio.ensure_future(_contained(self._harness, trial))
        try:
            async with self._hold.until(deadline):
                await asyncio.wait({playing})
        except TimeoutError:
            pass
        finally:
            is_late = not playing.done()
            if is_late:
                await _end(playing)
        return _Ended(is_late=True) if is_late else playing.result()

    def _stop(self, ended: _Ended, shell: HarnessSandbox) -> StopReason:
        """Why the trial ended, or whose failure it was. A failure below the harness counts, whatever it made of it."""
        problem = self._report.problem
        if shell.problem is not None:
            raise shell.problem
        if isinstance(ended.error, SandboxError):
            raise ended.error
        if isinstance(problem, EngineError):
            raise problem
        if ended.is_late:
            return StopReason.WALL
        if problem is not None and problem.code in _AT_BUDGET:
            return _AT_BUDGET[problem.code]
        if ended.error is not None:
            raise _harness_error(ended.error) from ended.error
        if not self._report.turns:
            raise HarnessError("harness_no_request", "it returned without a reply of the policy")
        return self._judged(ended.ending)

    def _judged(self, ending: Ending | None) -> StopReason:
        if ending is None:
            return StopReason.REPLY_CUT if self._report.is_cut else StopReason.DONE
        if ending not in get_args(Ending):
            raise HarnessError("harness_wrong_ending", f"returned {ending!r}, expected {', '.join(get_args(Ending))}")
        return StopReason(ending)

    def _take(self, turn: Turn) -> None:
        self._on_turn(turn)
        note = TurnNote(
            reply=turn.text,
            kind="cut" if turn.finish_reason == "length" else "reply",
            observation="",
            exit_code=None,
            prompt_tokens=len(turn.prompt_ids),
            sampled_tokens=len(turn.sampled_ids),
            engine_seconds=self._engine.seconds,
            command_seconds=0.0,
        )
        self.notes.append(note)

    def _ran(self, command: str, result: ExecResult) -> None:
        """Note a command under the latest reply; those before the first one belong to no turn."""
        if not self.notes:
            return
        note = self.notes[-1]
        printed = observation_text(result, timeout_seconds=result.seconds)
        told = f"{note.observation}\n$ {command}\n{printed}".lstrip("\n")
        self.notes[-1] = replace(
            note,
            observation=cut_middle(told, max_tokens=_NOTED_CHARACTERS, count_tokens=len),
            exit_code=result.exit_code,
            command_seconds=note.command_seconds + result.seconds,
        )


class _TimedEngine:
    """Remembers how long the latest reply took: a session hands a turn on in the same step that it arrives in."""

    def __init__(self, engine: Engine) -> None:
        self.seconds = 0.0
        self._engine = engine

    async def generate(self, prompt_ids: tuple[int, ...], *, rid: str, sampling: Sampling) -> Generation:
        """One reply, timed."""
        generation = await self._engine.generate(prompt_ids, rid=rid, sampling=sampling)
        self.seconds = generation.seconds
        return generation

    def take_lost(self, rid: str) -> int:
        """As the engine counts."""
        return self._engine.take_lost(rid)


async def _contained(harness: TextHarness, trial: TextTrial) -> _Ended:
    """Whatever somebody else's code raises, as a value; only a cancellation of ours passes."""
    try:
        return _Ended(await harness(trial))
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return _Ended(error=error)
    except (Exception, SystemExit) as error:
        return _Ended(error=error)


async def _end(playing: asyncio.Future[_Ended]) -> None:
    """Cancel a harness until it has ended. Raises HarnessError for one that does not."""
    for _ in range(_CANCELLATIONS):
        playing.cancel()
        await asyncio.wait({playing}, timeout=LAST_WORD_SECONDS)
        if playing.done():
            return
    raise HarnessError("harness_not_cancellable", f"it still runs {_CANCELLATIONS} cancellations after the deadline")


def _harness_error(error: BaseException) -> HarnessError:
    detail = "".join(traceback.format_exception(error, limit=-4))
    return HarnessError(f"harness_{type(error).__name__}", detail)
