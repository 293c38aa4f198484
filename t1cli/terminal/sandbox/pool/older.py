"""Operations on a sandbox of OpenClaw-RL's pool server, which knows four shell tools and its own evaluation.

Nothing here is repeated unless the request cannot have arrived: that server would run a command twice.
"""

from __future__ import annotations

import base64
import re
import secrets
import shlex
import time
from pathlib import Path
from typing import Any

from t1cli.terminal.rewards.failure import VerifierError
from t1cli.terminal.rewards.verdict import Verdict
from t1cli.terminal.sandbox.pool.calls import ServerAway, ServerSaid
from t1cli.terminal.sandbox.pool.leasing import Leased
from t1cli.terminal.sandbox.sandbox import ExecResult, SandboxError

_PIECE = 48 * 1024
_MARGIN_SECONDS = 60.0
TOOL_ERROR = "[TOOL_ERROR]"


class OlderSandbox:
    """One leased sandbox; raises SandboxError, ServerAway and ServerSaid."""

    def __init__(self, leased: Leased) -> None:
        self._leased = leased

    async def exec(
        self, command: str, *, timeout_seconds: float, cwd: str = "/work", env: dict[str, str] | None = None
    ) -> ExecResult:
        """Run one shell command; its status comes behind a mark, because the tool's answer is text only."""
        mark = f"t1-{secrets.token_hex(8)}"
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in (env or {}).items())
        inner = f"cd {shlex.quote(cwd)} && eval {shlex.quote(command)}"
        script = f"env {settings} timeout -s KILL {timeout_seconds:.3f} sh -c {shlex.quote(inner)}; echo {mark}=$?"
        began = time.monotonic()
        output = await self._tool("shell_exec", {"id": "t1", "command": script, "block": True}, timeout_seconds)
        found = re.search(rf"{mark}=(\d+)", output)
        seconds = time.monotonic() - began
        if found is None:
            # Without its mark the command did not end: the tool stopped it, or the shell is gone.
            if output.startswith(TOOL_ERROR):
                raise SandboxError(output[:300])
            return ExecResult(output, 124, True, seconds)
        code = int(found[1])
        timed_out = code == 137 and seconds >= timeout_seconds
        return ExecResult(output[: found.start()], 124 if timed_out else code, timed_out, seconds)

    async def put_directory(self, source: Path, target: str, *, read_only: bool) -> None:
        """Write a host directory's regular files through the shell."""
        if read_only:
            await self.reset_directory(target)
        for path in sorted(source.rglob("*")):
            if path.is_file() and not path.is_symlink():
                await self._put(path, f"{target}/{path.relative_to(source).as_posix()}")
        if read_only:
            await self._checked(f"chmod -R a-w {shlex.quote(target)}")

    async def reset_directory(self, path: str) -> None:
        """Make an absolute path inside an empty directory."""
        place = shlex.quote(path)
        await self._checked(f"rm -rf {place} && mkdir -p {place}")

    async def read_file(self, path: str, *, max_bytes: int) -> bytes | None:
        """Content of a regular file; only a link at the path itself is refused, those on the way are followed."""
        place = shlex.quote(path)
        script = f"[ -f {place} ] && [ ! -L {place} ] || exit 44; head -c {max_bytes + 1} {place} | base64 -w 0"
        result = await self.exec(script, timeout_seconds=15.0)
        if result.exit_code == 44:
            return None
        content = base64.b64decode(result.output.strip())
        if len(content) > max_bytes:
            raise SandboxError(f"{path} in the sandbox is larger than {max_bytes} bytes")
        return content

    async def end_processes(self) -> int:
        """Such a server cannot end an agent's processes without ending its own shell: its evaluation deals with it."""
        return 0

    async def evaluate(self, *, expected_tests: int | None, timeout_seconds: float) -> Verdict:
        """The server's own evaluation. It counts skipped tests as passed, so its ratio is no CTRF count."""
        began = time.monotonic()
        body = {"lease_id": self._leased.lease_id}
        try:
            answer = await self._leased.server.calls.post("/evaluate", body, answer_seconds=timeout_seconds + 30.0)
            score = float(answer["score"])
        except (ServerSaid, KeyError, TypeError, ValueError) as error:
            raise VerifierError("pool_evaluate", str(error)) from error
        return Verdict(
            solved=score >= 1.0,
            ctrf="missing",
            passed=0,
            total=0,
            expected=expected_tests,
            seconds=time.monotonic() - began,
        )

    async def _put(self, path: Path, target: str) -> None:
        place, content = shlex.quote(target), path.read_bytes()
        await self._checked(f"mkdir -p $(dirname {place}) && : > {place}")
        for start in range(0, len(content), _PIECE):
            piece = base64.b64encode(content[start : start + _PIECE]).decode()
            await self._checked(f"printf %s {piece} | base64 -d >> {place}")
        if path.stat().st_mode & 0o100:
            await self._checked(f"chmod +x {place}")

    async def _checked(self, command: str) -> None:
        result = await self.exec(command, timeout_seconds=15.0, cwd="/")
        if result.exit_code:
            raise SandboxError(f"{command[:100]}: {result.output.strip()[-200:]}")

    async def _tool(self, name: str, arguments: dict[str, Any], timeout_seconds: float) -> str:
        body = {"lease_id": self._leased.lease_id, "tool_call": {"name": name, "arguments": arguments}}
        calls = self._leased.server.calls
        try:
            answer = await calls.post("/exec_tool", body, answer_seconds=timeout_seconds + _MARGIN_SECONDS)
        except ServerAway as away:
            if away.reached:
                raise SandboxError(f"nobody knows whether the command ran: {away}") from away
            answer = await calls.post("/exec_tool", body, answer_seconds=timeout_seconds + _MARGIN_SECONDS)
        return str(answer.get("observation", ""))
