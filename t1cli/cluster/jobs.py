"""Ray jobs: submit under our own ID, ask, read the log, stop. Every wait is bounded; an absent cluster is said."""

from __future__ import annotations

import asyncio
import http.client
import logging
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar, cast

from t1cli.cluster.address import AUTH_VARIABLE, ClusterAddress, auth_mode
from t1cli.errors import CouldNotAsk, Refused

T = TypeVar("T")
Status = Literal["PENDING", "RUNNING", "STOPPED", "SUCCEEDED", "FAILED", "ABSENT"]
ENDED: Final[frozenset[Status]] = frozenset({"STOPPED", "SUCCEEDED", "FAILED", "ABSENT"})
CALL_SECONDS: Final = 30.0
_AGENT_SECONDS: Final = 120.0
_NO_AGENT: Final = "No available agent"


@dataclass(frozen=True)
class JobRequest:
    """What is submitted. `entrypoint` is run by a shell, so it must be a constant, never built from a spec."""

    job_id: str
    entrypoint: str
    runtime_env: Mapping[str, Any]
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Shown in the dashboard; no secret belongs here."""


@dataclass(frozen=True)
class JobState:
    """What the cluster says about one job."""

    job_id: str
    status: Status
    """`ABSENT`: this cluster does not know the job, for example because its head was started anew."""
    message: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def lives(self) -> bool:
        return self.status not in ENDED


class Jobs:
    """The jobs of one cluster. Every method raises CouldNotAsk when the cluster does not answer in time."""

    def __init__(self, client: Any, address: str, *, call_seconds: float = CALL_SECONDS) -> None:
        self._client, self.address, self._call_seconds = client, address, call_seconds

    @classmethod
    def open(cls, address: ClusterAddress, *, call_seconds: float = CALL_SECONDS) -> Jobs:
        """A client of the cluster at `address`, with the authentication mode said outright."""
        os.environ[AUTH_VARIABLE] = mode = auth_mode()
        client = _bounded(lambda: _connect(address), address.text, f"connect ({mode} authentication)", call_seconds)
        return cls(client, address.text, call_seconds=call_seconds)

    def submit(self, request: JobRequest) -> None:
        """Submit a job. Raises Refused when the cluster has a job of that ID already or takes none like it."""
        deadline = time.monotonic() + _AGENT_SECONDS
        while True:
            try:
                self._submit(request)
                return
            except RuntimeError as problem:
                # A head answers before its node has an agent that could run a job; nothing was accepted then.
                if _NO_AGENT in str(problem) and time.monotonic() < deadline:
                    time.sleep(1.0)
                    continue
                message = f"the cluster did not take job {request.job_id}: {problem}"
                raise Refused(message, where=self.address, hint=_no_agent_hint(str(problem))) from problem

    def _submit(self, request: JobRequest) -> None:
        self._ask(
            lambda: self._client.submit_job(
                entrypoint=request.entrypoint,
                submission_id=request.job_id,
                runtime_env=dict(request.runtime_env),
                metadata=dict(request.metadata),
            ),
            f"submit job {request.job_id}",
            seconds=4 * self._call_seconds,  # the working directory is uploaded inside this call
        )

    def state(self, job_id: str) -> JobState:
        """Where a job stands; `ABSENT` when this cluster has no such job."""
        try:
            found = self._ask(lambda: self._client.get_job_info(job_id), f"ask about job {job_id}")
        except RuntimeError as problem:
            if "404" in str(problem) or "does not exist" in str(problem):
                return JobState(job_id, "ABSENT", "the cluster does not know this job")
            raise CouldNotAsk(f"the cluster could not tell about job {job_id}: {problem}", self.address) from problem
        return _state(found)

    def living(self, metadata: Mapping[str, str]) -> tuple[JobState, ...]:
        """Jobs that have not ended and carry all of these metadata."""
        every = [_state(found) for found in self._ask(lambda: self._client.list_jobs(), "list its jobs")]
        return tuple(job for job in every if job.lives and metadata.items() <= dict(job.metadata).items())

    def stop(self, job_id: str, *, wait_seconds: float) -> JobState:
        """End one job by its ID and wait until the cluster says that it has ended; the last state either way."""
        state = self.state(job_id)
        if not state.lives:
            return state
        try:
            self._ask(lambda: self._client.stop_job(job_id), f"stop job {job_id}")
        except RuntimeError as problem:
            raise CouldNotAsk(f"job {job_id} could not be stopped: {problem}", self.address) from problem
        deadline = time.monotonic() + wait_seconds
        while (state := self.state(job_id)).lives and time.monotonic() < deadline:
            time.sleep(0.2)
        return state

    def log(self, job_id: str) -> str:
        """Everything that a job has printed so far; for a long log use `LogTail`."""
        return cast(str, self._ask(lambda: self._client.get_job_logs(job_id), f"read the log of job {job_id}"))

    def tail(self, job_id: str, *, skip_characters: int = 0) -> LogTail:
        """A reader that follows a job's log from behind `skip_characters`, in a thread of its own."""
        return LogTail(self._client, job_id, skip_characters)

    def _ask(self, call: Callable[[], T], what: str, *, seconds: float | None = None) -> T:
        return _bounded(call, self.address, what, seconds or self._call_seconds)


class LogTail:
    """Follows one job's log. A lost connection is opened again and what was read is passed over."""

    def __init__(self, client: Any, job_id: str, skip_characters: int) -> None:
        self._client, self._job_id = client, job_id
        self.characters = skip_characters
        """Characters of the log that `take` has handed out, the skipped ones included."""
        self._received = skip_characters
        self._chunks: list[str] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="job-log", daemon=True).start()

    def take(self) -> str:
        """What has come since the last call."""
        with self._lock:
            text, self._chunks = "".join(self._chunks), []
        self.characters += len(text)
        return text

    def drain(self, *, wait_seconds: float) -> str:
        """What is left of an ended job's log; waits a bounded time for its end."""
        self._ended.wait(wait_seconds)
        return self.take()

    def close(self) -> None:
        """Stop following; safe to call twice."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                asyncio.run(self._follow())
                self._ended.set()
                return
            except Exception as lost:
                # The boundary of this thread: whatever broke the connection, the follower asks for the job's state
                # itself and decides; here the only thing to do is to try again.
                logging.getLogger(__name__).debug("log connection lost: %s", lost)
                self._closed.wait(1.0)

    async def _follow(self) -> None:
        # The server begins at the start of the log each time.
        position = 0
        async for chunk in self._client.tail_job_logs(self._job_id):
            unseen = chunk[max(0, self._received - position) :]
            position += len(chunk)
            if unseen:
                with self._lock:
                    self._chunks.append(unseen)
                self._received += len(unseen)
            if self._closed.is_set():
                return


def _no_agent_hint(problem: str) -> str:
    if _NO_AGENT not in problem:
        return ""
    return "two Rays on one machine share the agent's port: `ray start --dashboard-agent-listen-port PORT` on the head"


def _connect(address: ClusterAddress) -> Any:
    from ray.job_submission import JobSubmissionClient

    # Its own progress lines would stand between ours.
    for name in (
        "ray.dashboard.modules.dashboard_sdk",
        "ray.dashboard.modules.job.sdk",
        "ray._private.runtime_env.packaging",
    ):
        logging.getLogger(name).setLevel(logging.ERROR)

    if address.is_url:
        return JobSubmissionClient(address.text)
    # Without a scheme it may be the dashboard's port or the head's; whichever answers as a job server is it.
    if "://" not in address.text and address.text != "auto" and _answers_http(address.text):
        return JobSubmissionClient(f"http://{address.text}")
    return JobSubmissionClient(_looked_up(address.text))


def _answers_http(host_and_port: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{host_and_port}/api/version", timeout=5):
            return True
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code < 500
    except (OSError, ValueError, http.client.HTTPException):
        return False


def _looked_up(text: str) -> str:
    from ray.dashboard.utils import get_address_for_submission_client

    # Ray's look-up prefers its variables to the address it is given.
    names = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
    before = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        return str(get_address_for_submission_client(text))
    finally:
        os.environ.update(before)


def _state(found: Any) -> JobState:
    status = cast(Status, str(getattr(found.status, "value", found.status)))
    return JobState(found.submission_id or found.job_id or "", status, found.message or "", found.metadata or {})


def _bounded(call: Callable[[], T], address: str, what: str, seconds: float) -> T:
    """Run a client call with a time limit: Ray's client waits for ever on a head that is up but does not answer."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            outcome.append(call())
        except BaseException as problem:  # handed to the caller below
            failure.append(problem)

    worker = threading.Thread(target=body, name="ray-call", daemon=True)
    worker.start()
    worker.join(seconds)
    if worker.is_alive():
        raise CouldNotAsk(f"the Ray cluster did not answer within {seconds:g} s: {what}", where=address)
    if failure:
        raise _translated(failure[0], address, what)
    return outcome[0]


def _translated(problem: BaseException, address: str, what: str) -> BaseException:
    name, text = type(problem).__name__, str(problem)
    # Not the bare numbers: an address may hold them.
    if "Authentication" in name or "status code 401" in text or "status code 403" in text:
        return CouldNotAsk(
            f"the Ray cluster refused this client's authentication ({AUTH_VARIABLE}={os.environ.get(AUTH_VARIABLE)})",
            where=address,
            hint=f"set {AUTH_VARIABLE} to what the head was started with, here and for `ray start`: `token` with "
            "RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, or `disabled` on a loopback cluster",
        )
    if isinstance(problem, ConnectionError | OSError) or "connect" in text.lower():
        return CouldNotAsk(
            f"the Ray cluster is not reachable: {what}: {text.splitlines()[0] if text else name}",
            where=address,
            hint="`ray start --head --dashboard-host … --dashboard-port …` on the head; engine.ray_address names it",
        )
    return problem
