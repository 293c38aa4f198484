"""What pool servers say of themselves: status, metrics, and whether they ask who is there. Asked once per preflight."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from t1cli.preflight.check import Context
from t1cli.spec.sandbox import PoolSandbox

NO_ANSWER = "no answer"
"""How the problem of a server begins that cannot be reached."""

_SECONDS = 8.0
_MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class ServerStatus:
    """One pool server."""

    url: str
    problem: str = ""
    """Why it said nothing useful."""
    ours: bool = False
    max_tasks: int = 0
    max_runs_per_task: int = 0
    slots: int = 0
    active: int = 0
    closing: int = 0
    waiting: int = 0
    up_seconds: float | None = None
    created: float | None = None
    """Sandboxes made since the server started; null when it does not say."""
    open_to_all: bool = False
    """It answers requests that bring no token."""

    @property
    def free(self) -> int:
        """Leases that it would grant now: one that is closing still holds its machine."""
        return max(0, self.slots - self.active - self.closing)


def pool_servers(context: Context) -> tuple[ServerStatus, ...]:
    """Every server of the spec's pool, in order; only for `sandbox.kind: pool`."""
    sandbox = context.spec.sandbox
    assert isinstance(sandbox, PoolSandbox)
    return context.memo.once("pool.servers", lambda: asyncio.run(_all(sandbox.urls)))


async def _all(urls: tuple[str, ...]) -> tuple[ServerStatus, ...]:
    found = await asyncio.gather(*(_one(url.rstrip("/")) for url in urls))
    return tuple(server for servers in found for server in servers)


async def _one(url: str) -> list[ServerStatus]:
    """The server, or all workers behind a router that speaks for them."""
    import httpx

    token = os.environ.get("T1_POOL_TOKEN", "")
    try:
        async with httpx.AsyncClient(base_url=url, timeout=_SECONDS, trust_env=False) as http:
            bare = await http.get("/status")
            answer = bare
            if bare.status_code == 401 and token:
                answer = await http.get("/status", headers={"authorization": f"Bearer {token}"})
            said = _object(answer)
            metrics = await http.get("/metrics", headers={"authorization": f"Bearer {token}"} if token else {})
    except httpx.HTTPError as error:
        return [ServerStatus(url, f"{NO_ANSWER}: {type(error).__name__}: {error}")]
    if answer.status_code != 200:
        return [ServerStatus(url, f"{answer.status_code}: {str(said.get('error') or answer.text)[:200]}")]
    created = _created(metrics.text) if metrics.status_code == 200 else None
    workers = said.get("workers")
    if isinstance(workers, list):
        return [_of_worker(url, worker) for worker in workers]
    return [_of_pool(url, said, created=created, open_to_all=bare.status_code == 200)]


def _of_worker(url: str, worker: Any) -> ServerStatus:
    if not isinstance(worker, dict) or not worker.get("ok"):
        name = worker.get("url") if isinstance(worker, dict) else "a worker"
        return ServerStatus(f"{url} → {name}", "the router cannot reach this worker")
    return _of_pool(f"{url} → {worker.get('url')}", worker, created=None, open_to_all=True)


def _of_pool(url: str, said: Mapping[str, Any], *, created: float | None, open_to_all: bool) -> ServerStatus:
    pool, no_pool = said.get("pool"), ServerStatus(url, "its /status is not that of a sandbox pool")
    if not isinstance(pool, dict):
        return no_pool
    try:
        max_tasks, runs = int(pool["max_tasks"]), int(pool["max_runs_per_task"])
        return ServerStatus(
            url,
            ours="t1_api" in said,
            max_tasks=max_tasks,
            max_runs_per_task=runs,
            slots=int(pool.get("capacity", max_tasks * runs)),
            active=int(pool.get("total_active_runs", 0)),
            closing=int(pool.get("pending_closes", 0)),
            waiting=int(pool.get("waiting", 0)),
            up_seconds=float(pool["up_seconds"]) if "up_seconds" in pool else None,
            created=created,
            open_to_all=open_to_all,
        )
    except (KeyError, TypeError, ValueError):
        return no_pool


def _created(text: str) -> float | None:
    found = re.search(r"^t1_pool_created_total(?:\{[^}]*\})?\s+([\d.e+]+)", text[:_MOST_BYTES], re.MULTILINE)
    return float(found[1]) if found else None


def _object(answer: Any) -> dict[str, Any]:
    try:
        found = answer.json() if len(answer.content) <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
