"""Where a trial, or the saving of one, is held until the test has struck. Runs in processes that a test may kill."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from t1cli.terminal.rewards.verdict import Verdict
from t1cli.terminal.rewards.verifier import grade
from t1cli.terminal.rollout.world import TrialWorld
from t1cli.terminal.sandbox.leases import LeaseBook
from t1cli.terminal.sandbox.sandbox import ExecResult, Placement, Sandbox, SandboxError, SandboxProvider
from t1cli.terminal.tasks.task import Task

ANNOUNCED_AFTER_SECONDS = 0.3
"""What is to be struck has begun by then; a fault that lands earlier is another cell's."""


@dataclass(frozen=True)
class Gate:
    """One moment of one run. Whoever gets there first says so in `at` (its pid) and waits for `go`."""

    place: Path
    moment: str
    fails: bool = False
    """The provider fails at that moment by itself, and nobody waits."""

    def claim(self, moment: str) -> bool:
        """True once per run, for the first that reaches its moment."""
        if moment != self.moment:
            return False
        try:
            os.close(os.open(self.place / "claimed", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    async def wait(self) -> None:
        """Say that the moment has come, when another trial is saved already, and wait for the test."""
        await asyncio.sleep(ANNOUNCED_AFTER_SECONDS)
        while not any(self.place.glob("runs/*/*/*/finished/*/*.json")):
            await asyncio.sleep(0.02)
        self._announce()
        while not (self.place / "go").exists():
            await asyncio.sleep(0.02)

    def block(self) -> None:
        """The same where nothing else of the process may go on either."""
        self._announce()
        while not (self.place / "go").exists():
            time.sleep(0.02)

    def _announce(self) -> None:
        aside = self.place / f".at.{os.getpid()}"
        aside.write_text(str(os.getpid()))
        aside.replace(self.place / "at")


def held(world: TrialWorld, gate: Gate) -> TrialWorld:
    """The world with the gate in its sandboxes and its grader."""
    provider = HeldQueue(world.provider, gate) if hasattr(world.provider, "reserve") else Held(world.provider, gate)
    if gate.moment == "create" and not gate.fails and not isinstance(provider, HeldQueue):
        _hold_before_processes_are_on_record(gate)

    async def held_grade(task: Task, sandbox: Sandbox, *, trial_dir: Path, timeout_seconds: float) -> Verdict:
        if gate.fails or not gate.claim("mid-grade"):
            return await grade(task, sandbox, trial_dir=trial_dir, timeout_seconds=timeout_seconds)
        slow = _slow(task, gate.place)
        async with _waiting(gate):
            return await grade(slow, sandbox, trial_dir=trial_dir, timeout_seconds=timeout_seconds)

    return replace(world, provider=provider, grade=held_grade)


class Held:
    """A provider whose sandboxes stop, or fail, at the moment."""

    def __init__(self, inner: SandboxProvider, gate: Gate) -> None:
        self.inner, self.gate = inner, gate

    async def create(self, name: str, *, owner: str) -> Sandbox:
        if self.gate.fails and self.gate.claim("create"):
            raise SandboxError("the provider has no machine")
        return HeldSandbox(await self.inner.create(name, owner=owner), self.gate)

    async def sweep(self, owner: str) -> tuple[str, ...]:
        return await self.inner.sweep(owner)

    async def close(self) -> None:
        await self.inner.close()


class HeldQueue(Held):
    """The same for a pool, where a lease comes first."""

    inner: Any

    async def reserve(self, name: str, *, owner: str, placement: Placement) -> None:
        await self.inner.reserve(name, owner=owner, placement=placement)

    async def give_up(self, name: str) -> None:
        await self.inner.give_up(name)

    async def create(self, name: str, *, owner: str) -> Sandbox:
        if not self.gate.fails and self.gate.claim("create"):
            await self.gate.wait()
        return await super().create(name, owner=owner)


class HeldSandbox:
    """A sandbox that stops, or fails, at the moment."""

    def __init__(self, inner: Sandbox, gate: Gate) -> None:
        self.name, self._inner, self._gate = inner.name, inner, gate

    async def exec(self, command: str, **options: Any) -> ExecResult:
        if self._gate.claim("mid-trial"):
            if self._gate.fails:
                raise SandboxError("the provider lost the machine")
            async with _waiting(self._gate):
                await self._inner.exec("setsid sleep 300 & sleep 2", timeout_seconds=60.0)
        return await self._inner.exec(command, **options)

    async def run_pytest(self, job: Any, *, timeout_seconds: float) -> ExecResult | None:
        return await self._inner.run_pytest(job, timeout_seconds=timeout_seconds)  # type: ignore[attr-defined]

    async def put_directory(self, source: Path, target: str, *, read_only: bool) -> None:
        await self._inner.put_directory(source, target, read_only=read_only)

    async def reset_directory(self, path: str) -> None:
        if self._gate.fails and self._gate.claim("mid-grade"):
            raise SandboxError("the provider lost the machine")
        await self._inner.reset_directory(path)

    async def read_file(self, path: str, *, max_bytes: int) -> bytes | None:
        return await self._inner.read_file(path, max_bytes=max_bytes)

    async def end_processes(self) -> int:
        return await self._inner.end_processes()

    async def close(self) -> None:
        # The last that a provider is asked before a trial is saved: a machine that it does not end stays behind.
        if self._gate.fails and self._gate.claim("mid-save"):
            raise SandboxError("the provider does not end the machine")
        await self._inner.close()


def hold_saves(gate: Gate) -> None:
    """Hold the process where a record is written and not yet in its place: of a trial, or of a whole rollout."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        # Of a trial the rows are in place when its record is written: one without the other is the half to look for.
        trial = "/finished/" in path and ".npz." not in path
        if ("/rollouts/" in path and gate.claim("mid-save of all")) or (trial and gate.claim("mid-save")):
            gate.block()
        real(descriptor)

    os.fsync = fsync


def _hold_before_processes_are_on_record(gate: Gate) -> None:
    started = LeaseBook.started

    def hold(book: LeaseBook, name: str, processes: Any) -> None:
        if gate.claim("create"):
            gate.block()
        started(book, name, processes)

    LeaseBook.started = hold  # type: ignore[method-assign]


@contextlib.asynccontextmanager
async def _waiting(gate: Gate) -> AsyncIterator[None]:
    """The gate beside what runs; whoever leaves waits for it, unless with a failure."""
    waiting = asyncio.ensure_future(gate.wait())
    try:
        yield
        await waiting
    finally:
        waiting.cancel()


def _slow(task: Task, place: Path) -> Task:
    """The same task with a verifier that takes its time."""
    slow = place / "slow" / task.path.name
    shutil.copytree(task.path, slow)
    script = slow / "tests" / "test.sh"
    script.write_text(script.read_text().replace("\n", "\nsleep 2\n", 1))
    return replace(task, path=slow)
