"""What a text harness is: an async function that plays one trial over a chat endpoint and a sandbox.

A spec names one by `rollout.harness: package.module:function`. The endpoint keeps every id as it was sampled, so the
harness works with text alone and still trains with exact tokens.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from t1cli.terminal.harness.agent import EXEC_GRACE_SECONDS
from t1cli.terminal.harness.limits import Limits
from t1cli.terminal.sandbox.sandbox import ExecResult, RunsAgents, Sandbox, SandboxError

T = TypeVar("T")

Ending = Literal["done", "turns", "context", "reply_cut", "malformed", "wall"]
"""How a harness says that its trial ended, in the words of StopReason."""


class TrialOver(Exception):
    """The trial's deadline has come: nothing runs in its sandbox any more."""


class HarnessSandbox:
    """A trial's sandbox, as far as its harness may use it: commands and files, until the deadline."""

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        command_seconds: float,
        left: Callable[[], float],
        on_result: Callable[[str, ExecResult], None] = lambda command, result: None,
    ) -> None:
        """`command_seconds`: the campaign's limit of one command; `left`: seconds until the deadline, below 0 after."""
        self.name = sandbox.name
        self.problem: SandboxError | None = None
        """The first failure of the sandbox itself. It loses the trial, whatever the harness makes of it."""
        self._sandbox, self._command_seconds, self._left = sandbox, command_seconds, left
        self._on_result = on_result

    @property
    def seconds_left(self) -> float:
        """Until the deadline."""
        return max(0.0, self._left())

    async def exec(
        self,
        command: str,
        *,
        timeout_seconds: float | None = None,
        cwd: str = "/work",
        env: dict[str, str] | None = None,
    ) -> ExecResult:
        """Run one shell command, for at most the campaign's limit and until the deadline.

        Raises TrialOver after it, and SandboxError when the sandbox is gone.
        """
        wanted = self._command_seconds if timeout_seconds is None else min(timeout_seconds, self._command_seconds)
        limit = min(wanted, self._time())
        running = self._sandbox.exec(command, timeout_seconds=limit, cwd=cwd, env=env)
        result = await self._guarded(running, limit + EXEC_GRACE_SECONDS)
        self._on_result(command, result)
        return result

    async def put_directory(self, source: Path, target: str, *, read_only: bool = False) -> None:
        """Place a host directory's files at an absolute path inside. Raises TrialOver and SandboxError."""
        placing = self._sandbox.put_directory(source, target, read_only=read_only)
        await self._guarded(placing, self._time() + EXEC_GRACE_SECONDS)

    async def read_file(self, path: str, *, max_bytes: int = 1 << 20) -> bytes | None:
        """Content of a regular file inside; None when absent. Raises TrialOver, and SandboxError above `max_bytes`."""
        async with asyncio.timeout(self._time() + EXEC_GRACE_SECONDS):
            # A file that is too long is the policy's doing, so this failure is not kept as the sandbox's.
            return await self._sandbox.read_file(path, max_bytes=max_bytes)

    async def run_agent(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Let an agent of the sandbox's backend play; the deadline ends it with the harness. Raises SandboxError."""
        if not isinstance(self._sandbox, RunsAgents):
            raise TypeError(f"a {type(self._sandbox).__name__} has no agents of its own")
        try:
            return await self._sandbox.run_agent(request)
        except SandboxError as error:
            self.problem = self.problem or error
            raise

    def _time(self) -> float:
        left_seconds = self._left()
        if left_seconds <= 0:
            raise TrialOver("the trial's deadline has come")
        return left_seconds

    async def _guarded(self, work: Awaitable[T], seconds: float) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            problem = SandboxError(f"no answer within {seconds:.0f} s")
        except SandboxError as error:
            problem = error
        self.problem = self.problem or problem
        raise problem


@dataclass(frozen=True)
class TextTrial:
    """One trial, as its harness is given it."""

    instruction: str
    base_url: str
    """For an OpenAI client; the trial's key is part of it. Anthropic's clients take it without the `/v1`."""
    api_key: str
    """The same key, for a client that wants one; the address without the key is `endpoint`."""
    endpoint: str
    """`http://HOST:PORT/v1`, with `api_key` as bearer token."""
    model: str
    """A name for requests; the endpoint serves the policy whatever is asked for."""
    sandbox: HarnessSandbox
    limits: Limits
    """Turns, context and reply length are enforced by the endpoint, command seconds by the sandbox; what is left to the
    harness is `observation_tokens`: see `fitted`."""
    trial_id: str
    fitted: Callable[[str], str]
    """An observation cut in the middle to the campaign's `observation_tokens`, counted by the policy's tokenizer."""

    @property
    def seconds_left(self) -> float:
        """Until the deadline, when the harness is cancelled; what it did until then is graded."""
        return self.sandbox.seconds_left


class TextHarness(Protocol):
    """A user's own agent loop. It runs in the rollout's event loop and must not block it.

    It returns when the trial is over, and may say how; None lets the endpoint judge: `done`, or `reply_cut` when the
    last reply ran into its limit. A budget that the endpoint refused a request for wins over both, even when the
    refusal made the harness raise. Any other exception is the harness's failure: the trial is lost and run again, never
    a reward of 0.
    """

    def __call__(self, trial: TextTrial) -> Awaitable[Ending | None]: ...


def signature_problem(found: Any) -> str:
    """Why something cannot be called as a TextHarness; empty when it can."""
    if not callable(found):
        return f"a {type(found).__name__}, expected an async function"
    ways = (found, inspect.unwrap(found), getattr(found, "__call__", None))  # noqa: B004
    if not any(inspect.iscoroutinefunction(way) for way in ways):
        return "not an async function: it would hold up every trial of the rollout"
    try:
        inspect.signature(found).bind(None)
    except (TypeError, ValueError) as error:
        return f"takes {inspect.signature(found)}, expected one argument, the trial: {error}"
    return ""
