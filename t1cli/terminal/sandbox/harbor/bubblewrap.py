"""`sandbox.environment: t1cli.terminal.sandbox.harbor.bubblewrap:BubblewrapEnvironment`: Harbor on this machine alone.

Harbor has no environment without containers; this one needs bubblewrap only. It builds no image: a task sees the
/usr of this host and finds the files of `environment/files` in /work. Good for trying Harbor's agents, and for proving
the backend.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t1cli.spec.sandbox import SandboxLimits
from t1cli.terminal.sandbox.harbor.bubblewrap_machine import BubblewrapMachine, as_harbor_says
from t1cli.terminal.sandbox.interpreter import make_verifier_python

if TYPE_CHECKING:

    class BaseEnvironment:
        """What is used of Harbor's class, which is not installed where types are checked."""

        environment_dir: Path
        trial_paths: Any
        task_env_config: Any

        def __init__(self, *arguments: Any, **keywords: Any) -> None: ...

        def _merge_env(self, env: dict[str, str] | None) -> dict[str, str] | None: ...

        def _resolve_user(self, user: str | int | None) -> str | int | None: ...

else:
    from harbor.environments.base import BaseEnvironment


class BubblewrapEnvironment(BaseEnvironment):
    """A Harbor environment that is one bubblewrap sandbox of ours.

    Options (`sandbox.options`): those of `sandbox.limits` of the local backend; no network unless `network: true`.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        own = {name: options.pop(name) for name in SandboxLimits.model_fields if name in options}
        super().__init__(*arguments, **options)
        asked = {"memory_mib": self.task_env_config.memory_mb, "disk_mib": self.task_env_config.storage_mb}
        limits = SandboxLimits.model_validate({name: size for name, size in asked.items() if size} | own)
        directory = Path(self.trial_paths.trial_dir)
        self._machine = BubblewrapMachine(directory, limits, make_verifier_python(directory / "python"))

    @staticmethod
    def type() -> str:
        """Harbor's word for what this is."""
        return "bubblewrap"

    @property
    def capabilities(self) -> Any:
        """No network is possible; nothing of the host is mounted."""
        return import_module("harbor.environments.capabilities").EnvironmentCapabilities(disable_internet=True)

    @classmethod
    def resource_capabilities(cls) -> Any:
        """Memory is limited per process; cores are not."""
        module = import_module("harbor.environments.capabilities")
        return module.EnvironmentResourceCapabilities(memory_limit=True)

    def _validate_definition(self) -> None:
        """Every task will do: nothing is built."""

    async def start(self, force_build: bool) -> None:
        """Create the sandbox; the files of `environment/files` are in its /work."""
        files = self.environment_dir / "files"
        await self._machine.begin(files if files.is_dir() else None)

    async def stop(self, delete: bool) -> None:
        """Destroy the sandbox."""
        await self._machine.end()

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> Any:
        """Run one shell command; any user but root is the sandbox's only one."""
        as_root = self._resolve_user(user) in ("root", 0)
        result = await self._machine.run(
            command, cwd=cwd, env=self._merge_env(env), seconds=timeout_sec, as_root=as_root
        )
        return as_harbor_says(result)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """Place a host file inside."""
        await self._machine.put_file(Path(source_path), str(target_path))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """Merge a host directory into one inside."""
        await self._machine.put_directory(Path(source_dir), str(target_dir))

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """Bring a file out."""
        await self._machine.get_file(str(source_path), Path(target_path))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """Bring a directory out."""
        await self._machine.get_directory(str(source_dir), Path(target_dir))
