"""The pool over HTTP: the routes of OpenClaw-RL's pool server as they are, and ours under /v1."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import os
import secrets
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from t1cli.errors import T1Error
from t1cli.terminal.asgi import (
    Answer,
    Disconnected,
    Receive,
    Scope,
    Send,
    read_json,
    serve_json,
    until_disconnect,
)
from t1cli.terminal.sandbox.plain_text import is_plain
from t1cli.terminal.sandbox.pool import fields
from t1cli.terminal.sandbox.pool.lease import LeaseRequest, PoolLease
from t1cli.terminal.sandbox.pool.operations import Pool
from t1cli.terminal.sandbox.pool.refusal import SERVER_BUG, SERVER_TROUBLE, UNAUTHORIZED, PoolRefusal, bad_request
from t1cli.terminal.sandbox.pool.tools import ToolCall, run_tool, tool_schemas
from t1cli.terminal.sandbox.sandbox import ExecResult, Sandbox
from t1cli.terminal.sandbox.warm_pytest import PytestJob, RunsPytest

_LOG = logging.getLogger(__name__)

API_VERSION = 1
"""Of the routes under /v1; /status says it, so that a client knows whom it talks to."""

_MAX_READ_BYTES = 32 * 1024 * 1024


class PoolApp:
    """The ASGI application over a pool; the caller starts and stops the pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._get: dict[str, Callable[[str], Answer]] = {
            "/healthz": lambda _: Answer({"ok": True}),
            "/status": lambda _: Answer({"ok": True, "t1_api": API_VERSION, "pool": pool.status()}),
            "/metrics": lambda _: Answer(pool.metrics()),
            "/v1/leases": self._leases,
        }
        self._post: dict[str, Callable[[dict[str, Any], str], Awaitable[Answer]]] = {
            "/allocate": self._allocate,
            "/heartbeat": self._heartbeat,
            "/close": self._close,
            "/reset": self._once(self._reset),
            "/exec_tool": self._exec_tool,
            "/evaluate": self._once(self._evaluate),
            "/v1/create": self._once(self._create),
            "/v1/exec": self._once(self._exec),
            "/v1/pytest": self._once(self._pytest),
            "/v1/put_directory": self._once(self._put_directory),
            "/v1/reset_directory": self._once(self._reset_directory),
            "/v1/read_file": self._read_file,
            "/v1/end_processes": self._once(self._end_processes),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await serve_json(self._answer, scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        """The one place where failures become statuses."""
        try:
            tenant = "" if scope["path"] == "/healthz" else self._tenant(scope)
            if scope["method"] == "GET" and scope["path"] in self._get:
                return self._get[scope["path"]](tenant)
            handler = self._post.get(scope["path"])
            if handler is None or scope["method"] != "POST":
                known = handler is not None or scope["path"] in self._get
                raise PoolRefusal(405 if known else 404, "NO_SUCH_ROUTE", f"no {scope['method']} {scope['path']}")
            body = await read_json(receive)
            return await until_disconnect(_called(handler, body, tenant), receive)
        except PoolRefusal as refusal:
            return _refused(refusal)
        except T1Error as error:
            return _refused(bad_request("; ".join(diagnostic.message for diagnostic in error.diagnostics)))
        except Disconnected:
            raise
        except OSError as error:
            # A full disk, no descriptor left: the request was right, and asking again makes sense.
            return _refused(self._trouble(scope, SERVER_TROUBLE, error))
        except Exception as error:
            return _refused(self._trouble(scope, SERVER_BUG, error))

    def _trouble(self, scope: Scope, code: str, error: Exception) -> PoolRefusal:
        self._pool.counters.add(f'failed_requests_total{{code="{code}"}}')
        trace = error if os.environ.get("T1_VERBOSE") else None
        _LOG.error("%s %s: %s: %s", scope["method"], scope["path"], type(error).__name__, error, exc_info=trace)
        return PoolRefusal(500, code, f"the pool server failed: {type(error).__name__}: {error}")

    def _tenant(self, scope: Scope) -> str:
        tokens = self._pool.settings.tokens
        if not tokens:
            return ""
        sent = dict(scope["headers"]).get(b"authorization", b"")
        for name, secret in tokens:
            if hmac.compare_digest(sent, f"Bearer {secret}".encode()):
                return name
        self._pool.counters.add(f'rejected_total{{code="{UNAUTHORIZED}"}}')
        raise PoolRefusal(401, UNAUTHORIZED, "a bearer token of this server is needed")

    def _once(
        self, operation: Callable[[PoolLease, dict[str, Any]], Awaitable[dict[str, Any]]]
    ) -> Callable[[dict[str, Any], str], Awaitable[Answer]]:
        """A handler that runs an operation on a lease at most once per request id."""

        async def handle(body: dict[str, Any], tenant: str) -> Answer:
            lease = self._lease(body, tenant)
            key = fields.text(body, "request_id", "") or secrets.token_hex(8)
            return await self._run_once(lease, key, lambda: operation(lease, body))

        return handle

    async def _run_once(self, lease: PoolLease, key: str, work: Callable[[], Awaitable[dict[str, Any]]]) -> Answer:
        result, joined = await lease.once(key, work)
        self._pool.counters.add("operations_joined_total", int(joined))
        lease.delivered_result(key)
        return Answer({"ok": True, **result})

    def _lease(self, body: dict[str, Any], tenant: str) -> PoolLease:
        return self._pool.keeper.lease(fields.text(body, "lease_id"), tenant=tenant)

    async def _allocate(self, body: dict[str, Any], tenant: str) -> Answer:
        task = fields.text(body, "task_key")
        request = LeaseRequest(
            task=task,
            group=fields.text(body, "group", "") or task,
            request_id=fields.text(body, "request_id", "") if body.get("request_id") is not None else "",
            owner=fields.text(body, "owner", ""),
            tenant=tenant,
            wait_seconds=fields.seconds(body, "wait_seconds", None),
            lease_seconds=fields.seconds(body, "lease_seconds", None),
        )
        lease, reused = await self._pool.keeper.allocate(request)
        idle_seconds = self._pool.settings.times.idle_seconds
        return Answer({"ok": True, "lease_id": lease.lease_id, "reused": reused, "idle_seconds": idle_seconds})

    async def _heartbeat(self, body: dict[str, Any], tenant: str) -> Answer:
        several = body.get("lease_ids")
        if several is None:
            self._lease(body, tenant)
            return Answer({"ok": True})
        if not isinstance(several, list):
            raise bad_request("lease_ids must be a list")
        unknown = []
        for lease_id in several:
            try:
                self._pool.keeper.lease(str(lease_id), tenant=tenant)
            except PoolRefusal:
                unknown.append(lease_id)
        return Answer({"ok": True, "unknown": unknown})

    async def _close(self, body: dict[str, Any], tenant: str) -> Answer:
        keeper = self._pool.keeper
        if body.get("lease_id") is None:
            lease = keeper.withdraw(fields.text(body, "request_id"), tenant=tenant)
        else:
            lease_id = fields.text(body, "lease_id")
            lease = keeper.leases.get(lease_id) or keeper.closing.get(lease_id)
            if lease is not None and self._pool.settings.tokens and lease.request.tenant != tenant:
                lease = None
        if lease is None:
            return Answer({"ok": True, "found": False})
        closing = keeper.close(lease, "closed")
        if body.get("wait"):
            await asyncio.shield(closing)
        return Answer({"ok": True, "found": True})

    async def _reset(self, lease: PoolLease, body: dict[str, Any]) -> dict[str, Any]:
        meta = fields.mapping(body, "task_meta")
        task = await self._pool.reset(lease, fields.plain_text(meta, "task_path"))
        return {"user_msg": meta.get("instruction") or task.instruction, "tool_schemas": tool_schemas()}

    async def _exec_tool(self, body: dict[str, Any], tenant: str) -> Answer:
        lease = self._lease(body, tenant)
        call = ToolCall.of(body.get("tool_call"))
        key = fields.text(body, "request_id", "") or _repeated(lease, call)
        seconds = self._pool.settings.times.command_seconds

        async def run() -> dict[str, Any]:
            work = lambda sandbox: run_tool(sandbox, call, timeout_seconds=seconds)  # noqa: E731
            return {"observation": await self._pool.use(lease, work)}

        return await self._run_once(lease, key, run)

    async def _evaluate(self, lease: PoolLease, body: dict[str, Any]) -> dict[str, Any]:
        score = await self._pool.evaluate(lease)
        return {**score.__dict__, "reward_source": "ctrf" if score.ctrf in ("ok", "disagree") else "binary"}

    async def _create(self, lease: PoolLease, body: dict[str, Any]) -> dict[str, Any]:
        return {"name": await self._pool.create(lease)}

    async def _exec(self, lease: PoolLease, body: dict[str, Any]) -> dict[str, Any]:
        command, cwd, env = (
            fields.text(body, "command"),
            fields.plain_text(body, "cwd", "/work"),
            fields.environment(body),
        )
        limit = fields.seconds(body, "timeout_seconds", self._pool.settings.times.command_seconds) or 0.0
        return _result(await self._pool.use(lease, lambda s: s.exec(command, timeout_seconds=limit, cwd=cwd, env=env)))

    async def _pytest(self, lease: PoolLease, body: dict[str, Any]) -> dict[str, Any]:
        arguments = body.get("arguments")
        if not isinstance(arguments, list) or not all(isinstance(a, str) and is_plain(a) for a in arguments):
            raise bad_request("arguments must be a list of texts without a NUL or half a character")
        job = PytestJob(tuple(arguments), fields.plain_text(body, "cwd"), fields.plain_text(body, "reward"))
        limit = fields.seconds(body, "timeout_seconds", 600.0) or 0.0

        async def run(sandbox: Sandbox) -> ExecResult | None:
            return await sandbox.run_pytest(job, timeout_seconds=limit) if isinstance(sandbox, RunsPytest) else None

        result = await self._pool.use(lease, run)
        return {"ran": result is not None, **({} if result is None else _result(result))}

    async def _put_directory(self, lease: PoolLease, body: dict[str, Any]) -> dict[str, Any]:
        target, read_only = fields.plain_text(body, "target"), bool(body.get("read_only"))
        with tempfile.TemporaryDirectory(dir=self._pool.uploads) as directory:
            fields.write_files(body, Path(directory))
            place = Path(directory)
            await self._pool.use(lease, lambda s: s.put_directory(place, target, read_only=read_only))
        return {}

    async def _reset_directory(self, lease: PoolLease, body: dict[str, Any]) -> dict[str, Any]:
        path = fields.plain_text(body, "path")
        await self._pool.use(lease, lambda s: s.reset_directory(path))
        return {}

    async def _read_file(self, body: dict[str, Any], tenant: str) -> Answer:
        lease, path = self._lease(body, tenant), fields.plain_text(body, "path")
        wanted = body.get("max_bytes", _MAX_READ_BYTES)
        if type(wanted) is not int or wanted < 0:
            raise bad_request(f"max_bytes must be a whole number, found {wanted!r}")
        limit = min(wanted, _MAX_READ_BYTES)
        content = await self._pool.use(lease, lambda s: s.read_file(path, max_bytes=limit))
        return Answer({"ok": True, "content": None if content is None else base64.b64encode(content).decode()})

    async def _end_processes(self, lease: PoolLease, body: dict[str, Any]) -> dict[str, Any]:
        return {"ended": await self._pool.use(lease, lambda s: s.end_processes())}

    def _leases(self, tenant: str) -> Answer:
        mine = [
            {
                "lease_id": lease.lease_id,
                "owner": lease.request.owner,
                "request_id": lease.request.request_id,
                "task": lease.request.task,
                "in_flight": lease.in_flight,
            }
            for lease in self._pool.keeper.leases.values()
            if not self._pool.settings.tokens or lease.request.tenant == tenant
        ]
        return Answer({"ok": True, "leases": mine})


async def _called(
    handler: Callable[[dict[str, Any], str], Awaitable[Answer]], body: dict[str, Any], tenant: str
) -> Answer:
    return await handler(body, tenant)


def _repeated(lease: PoolLease, call: ToolCall) -> str:
    """The key of a tool call without a request id.

    Clients without ids repeat a call when they have not seen its answer: the same call while the first is still
    running, or when its answer reached nobody, is that call. After a delivered answer the same words are a new one.
    """
    same = hashlib.sha256(json.dumps([call.name, call.arguments], sort_keys=True).encode()).hexdigest()[:16]
    if f"tool-{same}" in lease.results and f"tool-{same}" not in lease.undelivered:
        lease.forget(f"tool-{same}")
    return f"tool-{same}"


def _result(result: ExecResult) -> dict[str, Any]:
    return {
        "output": result.output,
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
        "seconds": result.seconds,
    }


def _refused(refusal: PoolRefusal) -> Answer:
    headers = {}
    if refusal.retry_after_seconds is not None:
        headers["retry-after"] = str(max(1, round(refusal.retry_after_seconds)))
    return Answer({"ok": False, "error": refusal.message, "code": refusal.code}, refusal.status, headers)
