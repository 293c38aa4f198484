"""Operations on a leased sandbox over the routes under /v1. Every one has an id, so that repeating it is safe."""

from __future__ import annotations

import base64
import os
import secrets
import stat
from pathlib import Path
from typing import Any

from t1cli.terminal.sandbox.pool.leasing import Leased
from t1cli.terminal.sandbox.sandbox import ExecResult
from t1cli.terminal.sandbox.warm_pytest import PytestJob

_MARGIN_SECONDS = 30.0


class RemoteSandbox:
    """One leased sandbox; raises ServerAway and ServerSaid."""

    def __init__(self, leased: Leased) -> None:
        self._leased = leased

    async def exec(
        self, command: str, *, timeout_seconds: float, cwd: str = "/work", env: dict[str, str] | None = None
    ) -> ExecResult:
        """Run one shell command, once, however often the connection breaks."""
        body = {"command": command, "timeout_seconds": timeout_seconds, "cwd": cwd, "env": env}
        return _result(await self._post("/v1/exec", body, timeout_seconds + _MARGIN_SECONDS))

    async def run_pytest(self, job: PytestJob, *, timeout_seconds: float) -> ExecResult | None:
        """Run pytest from the server's warm process; None when it has none."""
        body = {
            "arguments": list(job.arguments),
            "cwd": job.cwd,
            "reward": job.reward,
            "timeout_seconds": timeout_seconds,
        }
        answer = await self._post("/v1/pytest", body, timeout_seconds + _MARGIN_SECONDS)
        return _result(answer) if answer.get("ran") else None

    async def put_directory(self, source: Path, target: str, *, read_only: bool) -> None:
        """Send a host directory's regular files."""
        await self._post("/v1/put_directory", {"target": target, "read_only": read_only, "files": files_of(source)})

    async def reset_directory(self, path: str) -> None:
        """Make an absolute path inside an empty directory."""
        await self._post("/v1/reset_directory", {"path": path})

    async def read_file(self, path: str, *, max_bytes: int) -> bytes | None:
        """Content of a regular file inside; None when absent."""
        answer = await self._post("/v1/read_file", {"path": path, "max_bytes": max_bytes})
        content = answer.get("content")
        return None if content is None else base64.b64decode(content)

    async def end_processes(self) -> int:
        """End every process the agent left running."""
        return int((await self._post("/v1/end_processes", {}))["ended"])

    async def _post(self, path: str, body: dict[str, Any], answer_seconds: float = 120.0) -> dict[str, Any]:
        ids = {"lease_id": self._leased.lease_id, "request_id": secrets.token_hex(12)}
        return await self._leased.server.calls.post_again(path, {**ids, **body}, answer_seconds=answer_seconds)


def files_of(source: Path) -> list[dict[str, Any]]:
    """Directories and regular files under `source` as JSON; links are left out."""
    found: list[dict[str, Any]] = []
    for parent, directories, names in os.walk(source):
        place = Path(parent)
        for name in sorted(directories):
            if not (place / name).is_symlink():
                found.append({"path": (place / name).relative_to(source).as_posix(), "directory": True})
        for name in sorted(names):
            path = place / name
            if path.is_symlink() or not path.is_file():
                continue
            content = base64.b64encode(path.read_bytes()).decode()
            executable = bool(path.stat().st_mode & stat.S_IXUSR)
            found.append({"path": path.relative_to(source).as_posix(), "content": content, "executable": executable})
    return found


def _result(answer: dict[str, Any]) -> ExecResult:
    output, exit_code = str(answer["output"]), int(answer["exit_code"])
    return ExecResult(output, exit_code, bool(answer["timed_out"]), float(answer["seconds"]))
