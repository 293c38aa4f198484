"""Asking a machine: our scripts as commands of an environment, repeated when a call fails, and what they answer."""

from __future__ import annotations

import asyncio
import base64
import re
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from t1cli.terminal.sandbox.harbor import scripts
from t1cli.terminal.sandbox.sandbox import SandboxError

T = TypeVar("T")
User = str | int | None
"""Name or id of a user inside; null for the one that the image names."""

_MARGIN_SECONDS: Final = 60.0
_TRIES: Final = 3
PAUSE_SECONDS: Final = 0.2


class Answer(Protocol):
    """What Harbor says of one command."""

    stdout: str | None
    stderr: str | None
    return_code: int


class Environment(Protocol):
    """What is used of a Harbor environment (harbor.environments.base.BaseEnvironment, 0.26.0)."""

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: User = None,
    ) -> Any: ...

    async def upload_file(self, source_path: Path | str, target_path: str) -> Any: ...

    async def download_file(self, source_path: str, target_path: Path | str) -> Any: ...


async def again(call: Callable[[], Awaitable[T]]) -> T:
    """The result of a call that may be repeated. Raises SandboxError when the environment failed at it each time."""
    for attempt in range(1, _TRIES + 1):
        try:
            return await call()
        except SandboxError:
            raise
        except Exception as error:  # whatever a provider's client raises
            if attempt == _TRIES:
                raise SandboxError(f"{type(error).__name__}: {str(error)[-500:]}") from error
        await asyncio.sleep(PAUSE_SECONDS * 4**attempt)
    raise AssertionError("unreachable")


async def say(
    environment: Environment,
    script: Sequence[str],
    *,
    seconds: float,
    user: User = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = "/",
) -> Said:
    """Run one of our scripts with its arguments. Raises whatever the environment raises, and TimeoutError."""
    command = shlex.join(("/bin/sh", "-c", script[0], "sh", *script[1:]))
    async with asyncio.timeout(seconds + _MARGIN_SECONDS):
        answer = await environment.exec(
            command=command, cwd=cwd, env=dict(env) if env else None, timeout_sec=int(seconds) + 1, user=user
        )
    return Said.of(answer)


@dataclass(frozen=True)
class Said:
    """The lines of a script's answer that begin with `t1:`, and what lies between two of them."""

    text: str
    words: Mapping[str, str]

    @classmethod
    def of(cls, answer: Answer) -> Said:
        text = answer.stdout or ""
        found = re.findall(r"^t1:(\w+)(?::(.*?))?\r?$", text, re.M)
        # The first of each: an agent's own output comes later and is in base64 anyway.
        words = dict(reversed(found))
        return cls(text if words else f"{text}\n{answer.stderr or ''}\n(status {answer.return_code})", words)

    @property
    def ended(self) -> bool:
        return "done" in self.words or "refused" in self.words

    @property
    def status(self) -> int:
        """The command's exit status; 126 when it could not be started, 1 when it could not be written down."""
        if "refused" in self.words:
            return 126
        status = self._told.partition(":")[0]
        return int(status) if status.isdigit() else 1

    def output(self) -> str:
        """What was kept of the command's output, decoded with replacement."""
        if "refused" in self.words:
            return "the command could not be started: is the disk full?\n"
        size = int(self._told.partition(":")[2] or 0)
        head, tail = self.between("done" if "done" in self.words else "running", "tail"), self.between("tail", "end")
        if size <= 2 * scripts.KEPT_BYTES:
            tail = tail[-(size - len(head)) :] if size > len(head) else b""
            return (head + tail).decode("utf-8", errors="replace")
        left_out = f"\n[{size - len(head) - len(tail)} bytes left out]\n".encode()
        return (head + left_out + tail).decode("utf-8", errors="replace")

    def between(self, first: str, last: str) -> bytes:
        """What the script encoded between two of its lines."""
        found = re.search(rf"^t1:{first}\b.*?$(.*?)^t1:{last}\r?$", self.text, re.M | re.S)
        return base64.b64decode(found[1]) if found else b""

    def number(self, word: str) -> int:
        """A number that the script told. Raises SandboxError."""
        if not self.words.get(word, "").isdigit():
            raise SandboxError(f"the machine does not run commands: {self.text[-300:].strip() or 'no answer'}")
        return int(self.words[word])

    @property
    def _told(self) -> str:
        return self.words.get("done", self.words.get("running", ""))


def expect(answer: Said, word: str, what: str) -> None:
    """Raises SandboxError when the script did not get as far as saying `word`."""
    if word not in answer.words:
        raise SandboxError(f"{what}: {answer.text[-300:].strip() or 'no answer'}")
