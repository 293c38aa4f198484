"""Doubles for the pool: sandboxes in memory, an in-process HTTP server, and OpenClaw-RL's pool with its defects."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn

from t1cli.terminal.asgi import Answer, Disconnected, lifespan, read_json, send_answer
from t1cli.terminal.sandbox.pool.app import PoolApp
from t1cli.terminal.sandbox.pool.operations import Pool
from t1cli.terminal.sandbox.pool.settings import PoolSettings, PoolTimes, QueueLimits
from t1cli.terminal.sandbox.sandbox import ExecResult, SandboxError


@dataclass
class MemorySandbox:
    """`slow N` takes N seconds, `fail` loses the sandbox; every command is on record."""

    name: str
    provider: MemoryProvider

    async def exec(
        self, command: str, *, timeout_seconds: float, cwd: str = "/work", env: dict[str, str] | None = None
    ) -> ExecResult:
        self.provider.commands.append(command)
        word, _, rest = command.partition(" ")
        if word == "slow":
            await asyncio.sleep(float(rest))
        if word == "fail" or self.name not in self.provider.alive:
            raise SandboxError("gone")
        return ExecResult(f"ran {command}\n", 0, False, 0.0)

    async def put_directory(self, source: Path, target: str, *, read_only: bool) -> None:
        return None

    async def reset_directory(self, path: str) -> None:
        return None

    async def read_file(self, path: str, *, max_bytes: int) -> bytes | None:
        return None

    async def end_processes(self) -> int:
        return 0

    async def close(self) -> None:
        await asyncio.sleep(self.provider.close_seconds)
        self.provider.alive.discard(self.name)


@dataclass
class MemoryProvider:
    """Counts what lives, and fails or takes its time when told to."""

    create_seconds: float = 0.0
    close_seconds: float = 0.0
    failures: int = 0
    """Creations that fail before one succeeds."""
    alive: set[str] = field(default_factory=set)
    names: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    most_alive: int = 0

    async def create(self, name: str, *, owner: str) -> MemorySandbox:
        self.names.append(name)
        await asyncio.sleep(self.create_seconds)
        if self.failures:
            self.failures -= 1
            raise SandboxError("quota")
        self.alive.add(name)
        self.most_alive = max(self.most_alive, len(self.alive))
        return MemorySandbox(name, self)

    async def sweep(self, owner: str) -> tuple[str, ...]:
        return ()

    async def close(self) -> None:
        self.alive.clear()


@contextlib.asynccontextmanager
async def listening(app: Any) -> AsyncIterator[str]:
    """The application behind a real socket of this event loop; yields its URL."""
    place = socket.socket()
    place.bind(("127.0.0.1", 0))
    place.listen(1024)

    class Quiet(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Any:
            yield

    server = Quiet(uvicorn.Config(app, log_level="critical", access_log=False, timeout_keep_alive=120))
    serving = asyncio.create_task(server.serve(sockets=[place]))
    try:
        yield f"http://127.0.0.1:{place.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        await serving
        place.close()


@contextlib.asynccontextmanager
async def patient_clock() -> AsyncIterator[Callable[[], float]]:
    """Seconds that this event loop was given: no lease ages while a busy machine runs others."""
    seconds = 0.0

    async def tick() -> None:
        nonlocal seconds
        while True:
            await asyncio.sleep(0.05)
            seconds += 0.05

    ticking = asyncio.create_task(tick())
    try:
        yield lambda: seconds
    finally:
        ticking.cancel()


@dataclass
class Site:
    """A pool of ours that listens."""

    url: str
    pool: Pool
    provider: MemoryProvider
    http: httpx.AsyncClient

    async def post(self, path: str, **body: Any) -> httpx.Response:
        return await self.http.post(path, json=body)

    async def lease(self, task: str = "task", **body: Any) -> str:
        answer = await self.post("/allocate", task_key=task, **body)
        assert answer.status_code == 200, answer.text
        return answer.json()["lease_id"]


@contextlib.asynccontextmanager
async def our_pool(directory: Path, provider: MemoryProvider | None = None, **settings: Any) -> AsyncIterator[Site]:
    """Our server with the given limits and times."""
    limits = QueueLimits(**{k: v for k, v in settings.items() if k in QueueLimits.__dataclass_fields__})
    times = {"reap_every_seconds": 0.05, "drain_seconds": 0.0}
    times |= {k: v for k, v in settings.items() if k in PoolTimes.__dataclass_fields__}
    rest = {k: v for k, v in settings.items() if k in ("tokens", "dataset")}
    provider = provider or MemoryProvider()
    pool = Pool(
        PoolSettings(directory, limits=limits, times=PoolTimes(**times), **rest),
        provider,
        **({"prepare": settings["prepare"]} if "prepare" in settings else {}),
    )
    await pool.start()
    try:
        async with (
            listening(PoolApp(pool)) as url,
            httpx.AsyncClient(base_url=url, timeout=120, trust_env=False) as http,
        ):
            yield Site(url, pool, provider, http)
    finally:
        await pool.stop()


@dataclass
class OlderLease:
    task: str
    last_used: float
    container: str = ""
    ready: bool = False
    """Its reset has come to its end."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One reset, command or evaluation at a time."""


@dataclass
class OlderPool:
    """OpenClaw-RL's pool server as its source reads, with the defects that it has (numbers as in the tests)."""

    max_tasks: int = 16
    max_runs_per_task: int = 8
    idle_seconds: float = 600.0
    close_seconds: float = 0.0
    build_seconds: float = 0.0
    travel_seconds: float = 0.0
    """How long a request for a lease is on its way."""
    reset_failures: int = 0
    drop_answers_of: str = ""
    """A path whose next answer is lost after the work was done."""
    tests: tuple[str, ...] = ()
    """Statuses that an evaluation sees."""
    leases: dict[str, OlderLease] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    containers: set[str] = field(default_factory=set)
    pending_closes: int = 0
    commands: list[str] = field(default_factory=list)
    resets: list[str] = field(default_factory=list)
    builds_at_once: int = 0
    most_builds_at_once: int = 0
    most_containers: int = 0
    refused: int = 0
    granted: int = 0
    now: Callable[[], float] = lambda: time.monotonic()  # looked up at each call, so that a test may replace it
    _background: set[Any] = field(default_factory=set)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
            return
        try:
            body = await read_json(receive) if scope["method"] == "POST" else {}
        except Disconnected:
            return
        try:
            answer = await getattr(self, "on_" + scope["path"].strip("/"))(body)
        except Exception as error:  # as that server does: every failure is a 500
            answer = Answer({"ok": False, "error": str(error)}, 500)
        if self.drop_answers_of == scope["path"]:
            self.drop_answers_of = ""
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
            raise ConnectionError("the answer is lost")
        await send_answer(send, answer)

    def restart(self) -> None:
        """Defect 10: everything known was in memory."""
        self.leases.clear()
        self.requests.clear()

    async def on_healthz(self, body: Any) -> Answer:
        return Answer({"ok": True})

    async def on_status(self, body: Any) -> Answer:
        tasks: dict[str, dict[str, int]] = {}
        for lease in self.leases.values():
            tasks.setdefault(lease.task, {"active_runs": 0})["active_runs"] += 1
        pool = {
            "max_tasks": self.max_tasks,
            "active_tasks": len(tasks),
            "max_runs_per_task": self.max_runs_per_task,
            "total_active_runs": len(self.leases),
            "pending_closes": self.pending_closes,
            "tasks": tasks,
        }
        return Answer({"ok": True, "pool": pool})

    async def on_allocate(self, body: Any) -> Answer:
        await asyncio.sleep(self.travel_seconds)
        now = self.now()
        # Defect 1: expired leases are forgotten first, and closed only if nothing is returned before.
        expired = [i for i, lease in self.leases.items() if now - lease.last_used > self.idle_seconds]
        popped = [self.leases.pop(lease_id) for lease_id in expired]
        task = body["task_key"]
        if self.requests.get(body.get("request_id")) in self.leases:
            return Answer({"ok": True, "lease_id": self.requests[body["request_id"]], "reused": True})
        runs = sum(lease.task == task for lease in self.leases.values())
        tasks = {lease.task for lease in self.leases.values()}
        if runs >= self.max_runs_per_task or (task not in tasks and len(tasks) >= self.max_tasks):
            self.refused += 1
            code = "RUN_SLOTS_EXHAUSTED" if runs >= self.max_runs_per_task else "TASK_SLOTS_EXHAUSTED"
            return Answer({"ok": False, "error": "full", "code": code}, 429)
        for lease in popped:
            self._close_later(lease.container)
        self.granted += 1
        lease_id = f"run-{self.granted:016x}"
        self.leases[lease_id] = OlderLease(task, now)
        self.requests[body.get("request_id") or lease_id] = lease_id
        return Answer({"ok": True, "lease_id": lease_id, "reused": False})

    async def on_heartbeat(self, body: Any) -> Answer:
        self._lease(body).last_used = self.now()
        return Answer({"ok": True})

    async def on_reset(self, body: Any) -> Answer:
        lease = self._lease(body)
        async with lease.lock:
            return await self._reset(lease, body)

    async def _reset(self, lease: OlderLease, body: Any) -> Answer:
        self.resets.append(body["lease_id"])
        # Defects 6 and 7: every reset builds, under one name per lease.
        name = f"container-{body['lease_id']}"
        self.builds_at_once += 1
        self.most_builds_at_once = max(self.most_builds_at_once, self.builds_at_once)
        await asyncio.sleep(self.build_seconds)
        self.builds_at_once -= 1
        if name in self.containers:
            raise RuntimeError(f"the container name {name} is in use")
        self.containers.add(name)
        lease.container = name
        self.most_containers = max(self.most_containers, len(self.containers))
        if self.reset_failures:
            self.reset_failures -= 1
            raise RuntimeError("compose up failed")
        lease.last_used, lease.ready = self.now(), True
        return Answer({"ok": True, "user_msg": body["task_meta"]["instruction"], "tool_schemas": []})

    async def on_exec_tool(self, body: Any) -> Answer:
        lease = self._lease(body)
        async with lease.lock:
            return await self._exec(lease, body)

    async def _exec(self, lease: OlderLease, body: Any) -> Answer:
        if not lease.ready:
            raise RuntimeError("env is not initialized; call reset first")
        command = body["tool_call"]["arguments"]["command"]
        # Defect 5: a repeated request runs again.
        self.commands.append(command)
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        if body["lease_id"] in self.leases:
            lease.last_used = self.now()  # defect 2: only when it has ended
        return Answer({"ok": True, "observation": output.decode()})

    async def on_evaluate(self, body: Any) -> Answer:
        self._lease(body)
        passed = sum(status in ("passed", "skipped", "xfail") for status in self.tests)  # defect 11
        return Answer({"ok": True, "score": passed / len(self.tests) if self.tests else 0.0})

    async def on_close(self, body: Any) -> Answer:
        if "lease_id" not in body:
            raise KeyError("lease_id")
        lease = self.leases.pop(body["lease_id"], None)
        if lease is not None:
            self._close_later(lease.container)
        return Answer({"ok": True, "found": lease is not None})

    def _close_later(self, container: str) -> None:
        # Defect 8: the place is free before the container is gone.
        async def close() -> None:
            self.pending_closes += 1
            await asyncio.sleep(self.close_seconds)
            self.containers.discard(container)
            self.pending_closes -= 1

        task = asyncio.ensure_future(close())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _lease(self, body: Any) -> OlderLease:
        found = self.leases.get(body["lease_id"])
        if found is None or self.now() - found.last_used > self.idle_seconds:
            self.leases.pop(body["lease_id"], None)
            raise KeyError(f"Unknown run_lease_id: {body['lease_id']}")  # defect 9: becomes a 500
        return found


@dataclass
class OlderRouter:
    """Defect 3: the worker is the task key's hash; the next is tried only when one cannot be reached."""

    workers: list[httpx.AsyncClient]

    async def allocate(self, task: str) -> httpx.Response:
        index = int(hashlib.sha1(task.encode()).hexdigest(), 16) % len(self.workers)
        return await self.workers[index].post("/allocate", json={"task_key": task})


@pytest.fixture(scope="session")
def pools() -> SimpleNamespace:
    """Everything above, for test modules."""
    return SimpleNamespace(**{name: value for name, value in globals().items() if not name.startswith("__")})


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The table of faults and moments, as far as its cells were run."""
    found: dict[str, dict[str, str]] = {}
    for state in ("passed", "failed"):
        for report in terminalreporter.stats.get(state, ()):
            for name, value in getattr(report, "user_properties", ()):
                if name == "fault" and report.when == "call":
                    found.setdefault(value[0], {})[value[1]] = f"{'ok' if state == 'passed' else 'FAILED'}: {value[2]}"
    if found:
        terminalreporter.section("fault x moment: nothing left, no half row, the same tasks")
    for row, moments in found.items():
        for moment, figure in moments.items():
            terminalreporter.write_line(f"{row:<28}{moment:<17}{figure}")
