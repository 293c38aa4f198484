"""A live machine that runs commands, made into a sandbox: worker's side, for whatever has these four methods."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shlex
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from t1cli.terminal.harness.shielded import finish
from t1cli.terminal.sandbox.command import TIMED_OUT
from t1cli.terminal.sandbox.harbor import scripts
from t1cli.terminal.sandbox.harbor.answers import Environment, Said, User, again, expect, say
from t1cli.terminal.sandbox.harbor.archive import write_archive
from t1cli.terminal.sandbox.harbor.scripts import MARKER
from t1cli.terminal.sandbox.inside import absolute_parts
from t1cli.terminal.sandbox.sandbox import ExecResult, SandboxError

TESTS: Final = "/tests"

POLL_SECONDS: Final = 30.0
"""Longest that one call to the provider is silent: proxies drop a connection on which nothing moves for minutes."""

_MARGIN_SECONDS: Final = 60.0
_TRIES: Final = 3
_FILE_SECONDS: Final = 120.0
_LONG_COMMAND: Final = 60_000
_WHO: Final = 'echo "t1:uid:$(id -u)"; echo "t1:gid:$(id -g)"; echo "t1:in:$(pwd -P)"; echo "t1:home:$HOME"'
_INIT_NAMESPACE: Final = "pid:[4026531836]"
"""Linux, include/uapi/linux/nsfs.h: the process ids of the whole machine."""


@dataclass(frozen=True)
class Users:
    """Who runs commands, by what the task says; null for the image's own user."""

    agent: User = None
    verifier: User = None
    """From the moment that the tests are in place."""


@dataclass(frozen=True)
class _Place:
    """What was found out about a machine when it was new."""

    control: str
    """Directory of our own inside."""
    home: str
    """What /work is there."""
    uid: int
    gid: int
    baseline: str
    """Processes of before the first command, as ` pid:start pid:start `."""
    shares_processes: bool


class Machine:
    """A sandbox over a started environment; raises SandboxError for everything that the environment fails at."""

    def __init__(self, environment: Environment, place: _Place, marker: str, users: Users) -> None:
        self.environment = environment
        self._user = users.agent
        self._users = users
        self._place = place
        self._marker = marker
        self._lock = asyncio.Lock()
        self._before = ""

    async def exec(
        self, command: str, *, timeout_seconds: float, cwd: str = "/work", env: dict[str, str] | None = None
    ) -> ExecResult:
        """Run one shell command, once, however often an answer gets lost."""
        async with self._lock:
            number, before = secrets.token_hex(8), self._before
            self._before = number
            file = await self._command_file(command, number)
            arguments = (cwd, "" if file else command, file, self._marker, before)
            return await self._until_ended(number, arguments, timeout_seconds, {"TERM": "dumb", **(env or {})})

    async def put_directory(self, source: Path, target: str, *, read_only: bool) -> None:
        """Place a host directory's regular files at an absolute path; a read-only target is emptied first."""
        token, place = secrets.token_hex(8), self._place
        archive = f"{place.control}/{token}.tar"
        with tempfile.TemporaryDirectory() as scratch:
            packed = Path(scratch) / "files.tar"
            await asyncio.to_thread(write_archive, source, packed)
            await again(lambda: self.environment.upload_file(source_path=packed, target_path=archive))
        owner = (str(place.uid), str(place.gid))
        arguments = (place.control, archive, self._real(target), "1" if read_only else "0", *owner, token)
        expect(await self._as_root(scripts.PUT, *arguments), "placed", f"cannot place {source} at {target}")
        if target == TESTS:
            self._user = self._users.verifier

    async def reset_directory(self, path: str) -> None:
        """Make an absolute path an empty directory that commands can write to."""
        owner = (str(self._place.uid), str(self._place.gid))
        answer = await self._as_root(scripts.RESET, self._real(path), *owner, secrets.token_hex(8))
        expect(answer, "reset", f"cannot reset {path}")

    async def read_file(self, path: str, *, max_bytes: int) -> bytes | None:
        """Content of a regular file, no link followed; None when absent."""
        copy = f"{self._place.control}/{secrets.token_hex(8)}.copy"
        answer = await self._as_root(scripts.READ, self._real(path), str(max_bytes), copy)
        if "absent" in answer.words:
            return None
        if "large" in answer.words:
            raise SandboxError(f"{path} in the sandbox is larger than {max_bytes} bytes")
        if "copied" in answer.words:
            return await self._fetched(copy)
        expect(answer, "end", f"cannot read {path}")
        return answer.between("file", "end")

    async def end_processes(self) -> int:
        """End every process that the agent left running; returns how many."""
        async with self._lock:
            place = self._place
            shared = "1" if place.shares_processes else "0"
            answer = await self._as_root(scripts.END, place.baseline, self._marker, shared)
        expect(answer, "ended", "cannot end the processes")
        return int(answer.words["ended"])

    @contextmanager
    def as_agent(self) -> Iterator[Any]:
        """The environment, for an agent of Harbor's: its commands run as the task's user and carry the marker."""
        environment: Any = self.environment
        with environment.with_default_user(self._user), environment.scoped_exec_env({MARKER: self._marker}):
            yield environment

    async def check(self) -> None:
        """Raises SandboxError when the machine runs no commands any more."""
        expect(await self._say(("echo t1:alive",), seconds=_FILE_SECONDS), "alive", "the machine does not answer")

    async def _until_ended(
        self, number: str, arguments: Sequence[str], timeout_seconds: float, env: dict[str, str]
    ) -> ExecResult:
        began = time.monotonic()
        try:
            while True:
                left = max(0.0, began + timeout_seconds - time.monotonic())
                answer = await self._asked(number, arguments, min(left, POLL_SECONDS), env)
                seconds = time.monotonic() - began
                if answer.ended:
                    return ExecResult(answer.output(), answer.status, False, seconds)
                if seconds >= timeout_seconds:
                    break
            await self._kill(number)
            answer = await self._asked(number, arguments, 0.0, env)
        except asyncio.CancelledError:
            await finish(self._kill(number), seconds=_MARGIN_SECONDS)
            raise
        return ExecResult(answer.output(), TIMED_OUT, True, time.monotonic() - began)

    async def _asked(self, number: str, arguments: Sequence[str], wait: float, env: dict[str, str]) -> Said:
        hundredths = str(int(wait * 100))
        script = (scripts.RUN, self._place.control, number, hundredths, *arguments)
        for _ in range(_TRIES):
            answer = await self._say(script, seconds=wait + _MARGIN_SECONDS, user=self._user, env=env)
            if answer.words.keys() & {"done", "running", "refused"}:
                return answer
            # An agent may have killed what waits for its command.
        raise SandboxError(f"a command could not be started: {answer.text[-300:].strip() or 'no answer'}")

    async def _kill(self, number: str) -> None:
        # As the commands' own user: the number of the process is read from a file that they can write.
        script = (scripts.KILL, self._place.control, number)
        await self._say(script, seconds=_MARGIN_SECONDS, user=self._user)

    async def _command_file(self, command: str, number: str) -> str:
        """Where a command is that is too long for an argument; empty for the usual one."""
        if len(shlex.quote(command)) <= _LONG_COMMAND:
            return ""
        target = f"{self._place.control}/{number}.command"
        with tempfile.TemporaryDirectory() as scratch:
            written = Path(scratch) / "command"
            written.write_text(command, encoding="utf-8")
            written.chmod(0o644)
            await again(lambda: self.environment.upload_file(source_path=written, target_path=target))
        return target

    async def _fetched(self, copy: str) -> bytes:
        with tempfile.TemporaryDirectory() as scratch:
            target = Path(scratch) / "file"
            await again(lambda: self.environment.download_file(source_path=copy, target_path=target))
            content = await asyncio.to_thread(target.read_bytes)
        await self._as_root('rm -f "$1"; echo t1:removed', copy)
        return content

    def _real(self, path: str) -> str:
        parts = absolute_parts(path)
        return "/".join((self._place.home, *parts[1:])) if parts[0] == "work" else "/" + "/".join(parts)

    async def _as_root(self, *script: str) -> Said:
        return await self._say(script, seconds=_FILE_SECONDS, user="root")

    async def _say(
        self, script: Sequence[str], *, seconds: float, user: User = None, env: Mapping[str, str] | None = None
    ) -> Said:
        return await again(lambda: say(self.environment, script, seconds=seconds, user=user, env=env))


async def prepared(environment: Environment, users: Users = Users()) -> Machine:
    """A machine over a started environment. Raises SandboxError, naming what its image lacks."""
    control, marker = f"/tmp/.t1-{secrets.token_hex(8)}", secrets.token_hex(16)
    who = await again(lambda: say(environment, (_WHO,), seconds=_FILE_SECONDS, user=users.agent, cwd=None))
    uid, gid = who.number("uid"), who.number("gid")
    arguments = (control, str(uid), str(gid), who.words.get("in", ""), who.words.get("home", ""))
    found = await again(lambda: say(environment, (scripts.PREPARE, *arguments), seconds=_FILE_SECONDS, user="root"))
    if missing := found.words.get("missing"):
        raise SandboxError(f"the image lacks {', '.join(missing.split())}")
    expect(found, "prepared", "cannot prepare the machine")
    namespace = found.words.get("namespace", "")
    place = _Place(
        control=control,
        home=found.words["home"],
        uid=uid,
        gid=gid,
        baseline=" " + "".join(f"{process} " for process in re.findall(r"^t1:process:(\d+:\d+)\r?$", found.text, re.M)),
        shares_processes=namespace in ("", _INIT_NAMESPACE, os.readlink("/proc/self/ns/pid")),
    )
    return Machine(environment, place, marker, users)
