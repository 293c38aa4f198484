"""A private Ray on this machine's loopback: own ports, own temporary directory, nothing left behind however it ends."""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from t1cli.cluster import guard
from t1cli.errors import CouldNotAsk, T1Error
from t1cli.records import read_json, write_json

_LOG = logging.getLogger(__name__)

_STARTS = 2
"""Ray gives its node 30 s to come up and has no setting for it; a machine that was busy then may not be now."""
_OBJECT_STORE_BYTES = 256 * 2**20
_REASON_CHARACTERS = 500
_TEMP_PREFIX = "t1-ray-"

# Unix socket paths are limited to 107 bytes and Ray adds about 75, so the directory lies directly below /tmp.
_TEMP_ROOT = Path("/tmp") if os.access("/tmp", os.W_OK) else Path(tempfile.gettempdir())

PRIVATE_ENVIRONMENT: Mapping[str, str] = {
    # Recent Ray turns token authentication on by itself once it finds a token in the user's home, and then refuses
    # clients that do not say so. The cluster listens on loopback only, so it says `disabled` outright.
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray would end our small processes when somebody else's fill the machine's memory.
    "RAY_memory_monitor_refresh_ms": "0",
    # A leading `ray start` or job would otherwise be joined instead of starting our own.
    "RAY_ADDRESS": "",
}
"""Environment of every process of the cluster, besides what its user gives."""


class ActorFailed(T1Error):
    """A process of the cluster died or raised something that is no T1Error: a bug or the machine, not the user."""


class RemoteObject:
    """An object living in a process of its own. By default calls run there in the order they were made."""

    def __init__(self, handle: Any, name: str) -> None:
        self._handle, self.name = handle, name

    async def call(self, method: str, *arguments: object, **named: object) -> Any:
        """Run a method there. T1Errors arrive as they were raised, everything else as ActorFailed."""
        import ray

        try:
            return await self.begin(method, *arguments, **named)
        except ray.exceptions.RayTaskError as failure:
            cause = failure.cause
            if isinstance(cause, T1Error):
                raise cause from None
            hint = "the whole trace stands in the run's campaign.log"
            raise ActorFailed(f"the {self.name} failed in `{method}`: {_reason(failure)}", hint=hint) from failure
        except ray.exceptions.RayError as failure:
            raise ActorFailed(
                f"the {self.name}'s process is gone: {type(failure).__name__}", hint="its output under logs/ray/"
            ) from failure

    def begin(self, method: str, *arguments: object, **named: object) -> Any:
        """Start a call; its reference may be an argument of another call, and the value never passes through here."""
        return self._handle.call.remote(method, *arguments, **named)


def _reason(failure: Any) -> str:
    """What was raised there, in one line: the text of a RayTaskError is the whole trace of the other process."""
    cause = failure.cause
    said = f"{type(cause).__name__}: {cause}" if isinstance(cause, Exception) else str(failure).rstrip()
    lines = [line for line in said.splitlines() if line.strip()] or [type(failure).__name__]
    return (lines[0] if isinstance(cause, Exception) else lines[-1])[:_REASON_CHARACTERS]


class _Host:
    """What Ray runs: it imports the class in its own process, so that the driver need not import torch."""

    def __init__(self, target: str, arguments: tuple[object, ...], named: dict[str, object]) -> None:
        module, _, name = target.partition(":")
        self._object = getattr(importlib.import_module(module), name)(*arguments, **named)

    def call(self, method: str, *arguments: object, **named: object) -> object:
        """Pass a call on."""
        return getattr(self._object, method)(*arguments, **named)


@dataclass
class LocalCluster:
    """A running private Ray and the guard that outlives its driver."""

    mark: str
    temp_dir: Path
    record: Path
    _guard: subprocess.Popen[bytes]

    @classmethod
    def start(cls, record: Path, logs: Path, environment: Mapping[str, str] | None = None) -> LocalCluster:
        """Start Ray for this process. Its mark and directory are in `record` before anything of it exists.

        `environment` is added to that of every process of the cluster. Raises CouldNotAsk when Ray does not come up.
        """
        for left in reversed(range(_STARTS)):
            try:
                return cls._started(record, logs, environment or {})
            except CouldNotAsk as failure:
                if not left:
                    raise
                _LOG.warning("%s; trying once more", failure.message)
        raise AssertionError("no start was tried")

    @classmethod
    def _started(cls, record: Path, logs: Path, environment: Mapping[str, str]) -> LocalCluster:
        mark, temp_dir = secrets.token_hex(8), _TEMP_ROOT / f"{_TEMP_PREFIX}{secrets.token_hex(6)}"
        write_json(record, {"mark": mark, "temp_dir": str(temp_dir)})
        temp_dir.mkdir(mode=0o700)
        watcher = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, mark, str(temp_dir), str(logs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        cluster = cls(mark, temp_dir, record, watcher)
        try:
            _init_ray(temp_dir, {**environment, **PRIVATE_ENVIRONMENT, guard.MARK: mark})
        except Exception as failure:
            cluster.close()
            raise CouldNotAsk(f"a private Ray did not start: {failure}", hint=f"its logs: {logs}") from failure
        return cluster

    def spawn(self, target: str, *arguments: object, name: str, at_once: int = 1, **named: object) -> RemoteObject:
        """Start `module:Class` in a process of its own; a failing constructor shows at the first call.

        Up to `at_once` calls run in it side by side; with more than one their order is the caller's business.
        """
        import ray

        remote: Any = ray.remote(_Host).options(num_cpus=0, max_restarts=0, max_task_retries=0, max_concurrency=at_once)
        return RemoteObject(remote.remote(target, arguments, named), name)

    def close(self) -> None:
        """End every process of the cluster and remove its directory; safe to call twice."""
        import ray

        ray.shutdown()
        if self._guard.stdin is not None and not self._guard.stdin.closed:
            self._guard.stdin.close()
        self._guard.wait(timeout=30)
        self.record.unlink(missing_ok=True)


def sweep_cluster(record: Path) -> int:
    """End what a dead driver's private Ray left behind; returns the number of processes ended."""
    left = read_json(record) or {}
    mark, temp_dir = str(left.get("mark", "")), Path(str(left.get("temp_dir", "")))
    if not mark or not temp_dir.name.startswith(_TEMP_PREFIX):
        return 0
    ended = guard.Cluster(mark, temp_dir).end()
    shutil.rmtree(temp_dir, ignore_errors=True)
    record.unlink(missing_ok=True)
    return ended


def _free_port() -> int:
    """A port that nobody listens on now; Ray's own default collides with a second cluster on the machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _init_ray(temp_dir: Path, environment: Mapping[str, str]) -> None:
    """`ray.init` with an environment that this process itself keeps only while Ray's processes start."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        import ray

        ray.init(
            address="local",
            num_cpus=os.cpu_count(),
            num_gpus=0,
            include_dashboard=False,
            dashboard_host="127.0.0.1",
            dashboard_port=_free_port(),
            object_store_memory=_OBJECT_STORE_BYTES,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _temp_dir=str(temp_dir),
            _node_ip_address="127.0.0.1",
        )
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
