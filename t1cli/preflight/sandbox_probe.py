"""One sandbox from end to end, in a guarded process: created, written to, read from, a job left running, destroyed."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from t1cli.spec.sandbox import HarborSandbox, PoolSandbox
from t1cli.spec.sandbox import Sandbox as SandboxSpec
from t1cli.terminal.sandbox.sandbox import SandboxProvider

COMMAND_SECONDS = 20.0
OWNER = "preflight"


def work(request: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """`{"sandbox", "lease_wait_seconds"}` in; what worked, how long creating took, and what was left afterwards."""
    return asyncio.run(_probed(impatient_spec(request), directory))


def clean_up(request: Mapping[str, Any], directory: Path) -> None:
    """Destroy what a worker that was ended in the middle has on record."""
    sweep(request, directory, OWNER)


def impatient_spec(request: Mapping[str, Any]) -> SandboxSpec:
    """The spec of a request. A pool that has no lease now is a finding, not something to wait an hour for."""
    spec = _spec(request)
    if isinstance(spec, PoolSandbox):
        return spec.model_copy(update={"wait_seconds": float(request["lease_wait_seconds"])})
    return spec


def sweep(request: Mapping[str, Any], directory: Path, owner: str) -> None:
    """Destroy every sandbox of a dead `owner` that is on record in the directory."""
    spec = _spec(request)
    if isinstance(spec, PoolSandbox):
        asyncio.run(_sweep_leases(spec, directory, owner))
        return
    from t1cli.terminal.sandbox.sweep import sweep_directory

    sweep_directory(directory / "harbor" if isinstance(spec, HarborSandbox) else directory)


async def _probed(spec: SandboxSpec, directory: Path) -> dict[str, Any]:
    from t1cli.terminal.sandbox.from_spec import sandbox_provider

    provider = sandbox_provider(spec, directory)
    name = f"probe-{secrets.token_hex(4)}"
    try:
        started = time.monotonic()
        sandbox = await provider.create(name, owner=OWNER)
        create_seconds = time.monotonic() - started
        wrote = await sandbox.exec("echo ready > state; sleep 300 >/dev/null 2>&1 &", timeout_seconds=COMMAND_SECONDS)
        kept = await sandbox.exec("cat state", timeout_seconds=COMMAND_SECONDS)
        ended = await sandbox.end_processes()
        await sandbox.close()
    finally:
        await provider.close()
    return {
        "backend": getattr(provider, "backend", "pool"),
        "create_seconds": round(create_seconds, 3),
        "works": wrote.exit_code == 0 and "ready" in kept.output,
        "ended": ended,
        "left": [path.name for path in directory.rglob(name) if path.is_dir()],
    }


async def _sweep_leases(spec: PoolSandbox, directory: Path, owner: str) -> None:
    from t1cli.terminal.sandbox.pool.client import PoolProvider

    if not (directory / "pool" / "leases.jsonl").exists():
        return
    provider: SandboxProvider = PoolProvider(spec, directory)
    try:
        await provider.sweep(owner)
    finally:
        await provider.close()


def _spec(request: Mapping[str, Any]) -> SandboxSpec:
    found: SandboxSpec = TypeAdapter(SandboxSpec).validate_python(request["sandbox"])
    return found
