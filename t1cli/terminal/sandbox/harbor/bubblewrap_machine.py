"""A bubblewrap sandbox with the methods that Harbor calls; free of Harbor, so that it can be tried without."""

from __future__ import annotations

import contextlib
import io
import secrets
import tarfile
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from t1cli.spec.sandbox import SandboxLimits
from t1cli.terminal.sandbox.interpreter import VerifierPython
from t1cli.terminal.sandbox.leases import Lease, LeaseBook, full_owner
from t1cli.terminal.sandbox.local import new_confinement
from t1cli.terminal.sandbox.local_bubblewrap import BubblewrapSandbox, create_bubblewrap
from t1cli.terminal.sandbox.process_identity import kill
from t1cli.terminal.sandbox.sandbox import ExecResult, SandboxError

_LONGEST_SECONDS = 24 * 3600.0
_MAX_FILE_BYTES = 256 * 1024 * 1024


class BubblewrapMachine:
    """One machine; its processes are on record in `directory` once it has started."""

    def __init__(self, directory: Path, limits: SandboxLimits, python: VerifierPython | None = None) -> None:
        self._directory, self._limits, self._python = directory, limits, python
        self._sandbox: BubblewrapSandbox | None = None

    async def begin(self, files: Path | None) -> None:
        """Create it, with the files of a directory in /work. Raises SandboxError."""
        leases = LeaseBook(self._directory)
        leases.ask(Lease("machine", full_owner("harbor")))
        self._sandbox = await create_bubblewrap("machine", new_confinement(self._limits, self._python), leases)
        if files is not None:
            await self._sandbox.put_directory(files, "/work", read_only=False)

    async def end(self) -> None:
        """Destroy it; also one that another process has started and left behind."""
        if self._sandbox is not None:
            await self._sandbox.close()
            return
        book = LeaseBook(self._directory)
        for lease in book.leases():
            if not lease.closed:
                for process in lease.processes:
                    kill(process)
                book.closed(lease.name, swept=True)

    async def run(
        self, command: str, *, cwd: str | None, env: dict[str, str] | None, seconds: float | None, as_root: bool
    ) -> ExecResult:
        """Run one shell command as the commands' user, or as root with few of root's rights."""
        sandbox, limit = self._live(), seconds or _LONGEST_SECONDS
        if as_root:
            return await sandbox.run_as_root(command, timeout_seconds=limit, cwd=cwd or "/", env=env)
        return await sandbox.exec(command, timeout_seconds=limit, cwd=cwd or "/work", env=env)

    async def put_file(self, source: Path, target: str) -> None:
        """Place one host file at an absolute path inside."""
        parent, _, name = target.rpartition("/")
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch) / name
            copy.write_bytes(source.read_bytes())
            copy.chmod(source.stat().st_mode & 0o777)
            await self._live().put_directory(Path(scratch), parent, read_only=False)

    async def put_directory(self, source: Path, target: str) -> None:
        """Merge a host directory's files into an absolute path inside."""
        await self._live().put_directory(source, target, read_only=False)

    async def get_file(self, source: str, target: Path) -> None:
        """Bring one file out. Raises FileNotFoundError."""
        content = await self._live().read_file(source, max_bytes=_MAX_FILE_BYTES)
        if content is None:
            raise FileNotFoundError(f"{source} in {self._directory.name}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    async def get_directory(self, source: str, target: Path) -> None:
        """Bring a directory's files out, over what is there."""
        archive = f"/tmp/.{secrets.token_hex(8)}.tar"
        packed = await self.run(
            f'tar -cf {archive} -C "$SOURCE" .', cwd="/", env={"SOURCE": source}, seconds=None, as_root=True
        )
        if packed.exit_code != 0:
            raise FileNotFoundError(f"{source} in {self._directory.name}: {packed.output[-200:]}")
        content = await self._live().read_file(archive, max_bytes=_MAX_FILE_BYTES) or b""
        with tarfile.open(fileobj=io.BytesIO(content)) as found:
            for member in found:
                with contextlib.suppress(tarfile.FilterError):
                    found.extract(member, target, filter="data")

    def _live(self) -> BubblewrapSandbox:
        if self._sandbox is None:
            raise SandboxError("the sandbox has not been started")
        return self._sandbox


def as_harbor_says(result: ExecResult) -> Any:
    """A result with Harbor's names; its two streams were one."""
    return SimpleNamespace(stdout=result.output, stderr="", return_code=result.exit_code)
