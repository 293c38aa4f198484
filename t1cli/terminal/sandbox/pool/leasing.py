"""Getting leases from several servers and keeping them: placement, waiting, failover, heartbeats, giving back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from t1cli.terminal.sandbox.pool.calls import ServerAway, ServerCalls, ServerSaid
from t1cli.terminal.sandbox.pool.older_line import OlderLine
from t1cli.terminal.sandbox.pool.placement import Server, best_first
from t1cli.terminal.sandbox.sandbox import Placement, SandboxError

_LOG = logging.getLogger(__name__)

_CREATE_SECONDS = 300.0
_CLOSE_SECONDS = 120.0
_ACCEPTED_SECONDS = 1.0
"""A server that has not refused a request after this long has taken it into its line."""
_MARGIN_SECONDS = 15.0


@dataclass(eq=False)
class Leased:
    """One lease that this client holds."""

    name: str
    lease_id: str
    server: Server
    placement: Placement
    lost: bool = False
    """The server no longer knows it."""
    places: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)


class Leasing:
    """All leases of one client. Belongs to one event loop."""

    def __init__(self, calls: list[ServerCalls], *, wait_seconds: float, lease_seconds: float) -> None:
        self.servers = [Server(one) for one in calls]
        self.refusals = 0
        self._wait_seconds, self._lease_seconds = wait_seconds, lease_seconds
        self._held: dict[str, Leased] = {}
        self._lines: dict[Server, OlderLine] = {}
        self._first_resets: dict[tuple[Server, str], asyncio.Lock] = {}
        self._built: set[tuple[Server, str]] = set()
        self._refreshing = asyncio.Lock()
        self._beating: asyncio.Task[None] | None = None

    def is_reserved(self, name: str) -> bool:
        """Whether a lease for this name is held."""
        return name in self._held

    async def reserve(self, name: str, owner: str, placement: Placement) -> None:
        """Hold a lease for `name`. Raises SandboxError after the wait, and for what no waiting would change."""
        deadline = time.monotonic() + self._wait_seconds
        last = "no server was asked"
        while (left_seconds := deadline - time.monotonic()) > 0:
            server = await self._choose(placement, left_seconds)
            try:
                leased = await self._tried(server, (name, owner, placement), deadline)
            except ServerAway as away:
                last = str(away)
                server.calls.pause.refused()
                server.seen_seconds = -1e9
            except ServerSaid as said:
                last = str(said)
                if not said.full:
                    raise SandboxError(f"{server.calls.url} refused a lease: {said}") from said
                self.refusals += 1
                server.calls.pause.refused(said.retry_after_seconds)
            else:
                server.calls.pause.answered()
                self._held[name] = leased
                self._beating = self._beating or asyncio.create_task(self._beat())
                return
        raise SandboxError(f"no lease within {self._wait_seconds:g} s; last answer: {last}")

    async def create(self, name: str) -> Leased:
        """A sandbox under the lease of `name`; the lease is given back when that fails. Raises SandboxError."""
        leased = self._held[name]
        try:
            return await (self._created(leased) if leased.server.is_ours else self._reset(leased))
        except (ServerAway, ServerSaid) as error:
            await self.release(name)
            raise SandboxError(f"cannot create {name}: {error}") from error

    async def give_up(self, name: str) -> bool:
        """Give back what no sandbox was made of; False when there is no such lease."""
        return await self.release(name) if name in self._held else False

    async def release(self, name: str) -> bool:
        """Give a lease back; True when its server confirmed it. One that does not is left to its idle limit."""
        leased = self._held.pop(name, None)
        if leased is None:
            return True
        body = {"lease_id": leased.lease_id, "wait": True}
        try:
            await leased.server.calls.post_again("/close", body, attempts=4, answer_seconds=_CLOSE_SECONDS)
        except (ServerAway, ServerSaid) as error:
            _LOG.warning("cannot give %s back: %s", name, error)
            return False
        finally:
            if not leased.server.is_ours:
                await self._line(leased.server).machine_gone(_CLOSE_SECONDS)
            leased.places.close()
        return True

    async def close_request(self, name: str) -> bool | None:
        """Close whatever any server has under a request id: whether one had; None when a server did not answer."""
        found, silent = False, False
        await self._refresh()
        for server in self.servers:
            try:
                answer = await server.calls.post("/close", {"request_id": name, "wait": True})
                found = found or bool(answer.get("found"))
            except ServerAway:
                silent = True
            except ServerSaid as said:
                # An older server closes by lease id only; its own limit ends what nobody uses.
                silent = silent or (server.is_ours and said.status >= 500)
        return None if silent else found

    async def close(self) -> list[str]:
        """Give everything back; returns the names that servers confirmed."""
        if self._beating is not None:
            self._beating.cancel()
        names = list(self._held)
        confirmed = await asyncio.gather(*(self.release(name) for name in names))
        await asyncio.gather(*(server.calls.close() for server in self.servers))
        return [name for name, done in zip(names, confirmed, strict=True) if done]

    async def _choose(self, placement: Placement, left_seconds: float) -> Server:
        """The best server that is not pausing; waits, together with all other callers, while every one is."""
        await self._refresh()
        server = best_first(self.servers, placement.task)[0]
        pause_seconds = server.calls.pause.left_seconds
        if pause_seconds:
            await asyncio.sleep(min(left_seconds, pause_seconds * random.uniform(1.0, 1.2)))
            await self._refresh()
            server = best_first(self.servers, placement.task)[0]
        return server

    async def _refresh(self) -> None:
        async with self._refreshing:
            stale = [server for server in self.servers if server.is_stale and not server.calls.pause.left_seconds]
            await asyncio.gather(*(self._look(server) for server in stale))

    async def _look(self, server: Server) -> None:
        try:
            server.saw(await server.calls.get("/status"))
        except (ServerAway, ServerSaid, ValueError, KeyError, TypeError) as error:
            _LOG.info("no status of %s: %s", server.calls.url, error)
            server.calls.pause.refused()

    async def _tried(self, server: Server, wanted: tuple[str, str, Placement], deadline: float) -> Leased:
        """Ask one server. After a refusal one caller tries first; the others wait behind it instead of joining in."""
        if not server.is_ours:
            return await self._ask_older(server, wanted, deadline)
        if not server.calls.pause.refusals:
            return await self._ask(server, wanted, deadline)
        async with server.calls.probing:
            asking = asyncio.create_task(self._ask(server, wanted, deadline))
            try:
                await asyncio.wait({asking}, timeout=_ACCEPTED_SECONDS)
            except asyncio.CancelledError:
                await _cancel(asking)
                raise
            if not asking.done():
                server.calls.pause.answered()
        try:
            return await asking
        except asyncio.CancelledError:
            await _cancel(asking)
            raise

    async def _ask(self, server: Server, wanted: tuple[str, str, Placement], deadline: float) -> Leased:
        name, owner, placement = wanted
        left_seconds = max(0.01, deadline - time.monotonic())
        body = {
            "task_key": placement.task,
            "group": placement.group,
            "request_id": name,
            "owner": owner,
            "wait_seconds": left_seconds,
            "lease_seconds": self._lease_seconds,
        }
        with _asked(server):
            try:
                answer = await server.calls.post("/allocate", body, answer_seconds=left_seconds + _MARGIN_SECONDS)
            except asyncio.CancelledError:
                # A grant that crosses the cancellation on its way must not keep a place.
                with contextlib.suppress(ServerAway, ServerSaid):
                    await server.calls.post("/close", {"request_id": name}, answer_seconds=5.0)
                raise
        leased = Leased(name, str(answer["lease_id"]), server, placement)
        leased.places.enter_context(_used(server, placement.task))
        return leased

    async def _ask_older(self, server: Server, wanted: tuple[str, str, Placement], deadline: float) -> Leased:
        """An older server has no line: ours decides who asks, so that it is asked when it can say yes."""
        name, _, placement = wanted
        with _asked(server):
            place = await self._line(server).place(placement, deadline)
            try:
                body = {"task_key": f"{placement.task}:{placement.task_path}", "request_id": name}
                answer = await _to_its_end(server, body)
            except BaseException:
                place.give_back()
                raise
        leased = Leased(name, str(answer["lease_id"]), server, placement)
        leased.places.callback(place.give_back)
        leased.places.enter_context(_used(server, placement.task))
        return leased

    def _line(self, server: Server) -> OlderLine:
        return self._lines.setdefault(server, OlderLine(server))

    async def _created(self, leased: Leased) -> Leased:
        body = {"lease_id": leased.lease_id, "request_id": f"{leased.name}-create"}
        await leased.server.calls.post_again("/v1/create", body, answer_seconds=_CREATE_SECONDS)
        return leased

    async def _reset(self, leased: Leased) -> Leased:
        """One reset, and after a failure one more under a new lease: never a second build in the same place."""
        try:
            await self._reset_once(leased)
            return leased
        except ServerAway as away:
            if away.reached and await self._answers(leased):
                _LOG.info("the answer to the reset of %s was lost, its sandbox is there", leased.name)
                return leased
            _LOG.warning("reset of %s failed, trying a new lease: %s", leased.name, away)
        except ServerSaid as said:
            _LOG.warning("reset of %s failed, trying a new lease: %s", leased.name, said)
        await self.release(leased.name)
        wanted = (f"{leased.name}-again", "", leased.placement)
        again = await self._ask_older(leased.server, wanted, time.monotonic() + self._wait_seconds)
        again.name = leased.name
        self._held[leased.name] = again
        await self._reset_once(again)
        return again

    async def _answers(self, leased: Leased) -> bool:
        """Whether a reset that nobody heard of has made a sandbox: its shell is asked to say a word.

        Such a server does one thing at a time per lease, so the question waits for a reset that is still under way.
        """
        mark = f"t1-{secrets.token_hex(8)}"
        arguments = {"id": "t1-reset", "command": f"echo {mark}", "block": True}
        body = {"lease_id": leased.lease_id, "tool_call": {"name": "shell_exec", "arguments": arguments}}
        try:
            answer = await leased.server.calls.post("/exec_tool", body, answer_seconds=_CREATE_SECONDS)
        except (ServerAway, ServerSaid):
            return False
        there = mark in str(answer.get("observation", ""))
        if there:
            self._built.add((leased.server, leased.placement.task))
        return there

    async def _reset_once(self, leased: Leased) -> None:
        """One reset; the first of a task on a server goes alone, because every one that finds no image builds it."""
        key = (leased.server, leased.placement.task)
        first = self._first_resets.setdefault(key, asyncio.Lock())
        post = leased.server.calls.post("/reset", _reset_body(leased), answer_seconds=_CREATE_SECONDS)
        if key in self._built:
            await post
            return
        async with first:
            await post
            self._built.add(key)

    async def _beat(self) -> None:
        """Tell every server that its leases are in use, also while nothing runs on them.

        Each in its own time: one that does not answer keeps no other server's leases waiting.
        """
        await asyncio.gather(*(self._beat_one(server) for server in self.servers))

    async def _beat_one(self, server: Server) -> None:
        while True:
            await asyncio.sleep(min(60.0, server.idle_seconds / 4) * random.uniform(0.8, 1.0))
            mine = [leased for leased in self._held.values() if leased.server is server and not leased.lost]
            try:
                await _beat_server(server, mine)
            except (ServerAway, ServerSaid) as problem:
                _LOG.debug("no heartbeat: %s", problem)  # the next one comes, and trials say themselves what fails
            except Exception:  # the boundary of heartbeats: without them every lease of this server would expire
                _LOG.exception("the answer to a heartbeat of %s is none", server.calls.url)


async def _beat_server(server: Server, mine: list[Leased]) -> None:
    if server.is_ours and mine:
        answer = await server.calls.post("/heartbeat", {"lease_ids": [leased.lease_id for leased in mine]})
        unknown = set(answer.get("unknown", ()))
        for leased in mine:
            leased.lost = leased.lease_id in unknown
        return
    for leased in mine:
        try:
            await server.calls.post("/heartbeat", {"lease_id": leased.lease_id})
        except ServerSaid as said:
            leased.lost = "Unknown run_lease_id" in said.message


async def _to_its_end(server: Server, body: dict[str, Any]) -> dict[str, Any]:
    """Allocate on an older server. It cannot take a request back, so a cancelled one is ended by its lease id."""
    asking = asyncio.ensure_future(server.calls.post("/allocate", body))
    try:
        return await asyncio.shield(asking)
    except asyncio.CancelledError:
        with contextlib.suppress(ServerAway, ServerSaid):
            answer = await asking
            await server.calls.post("/close", {"lease_id": answer["lease_id"]})
        raise


def _reset_body(leased: Leased) -> dict[str, Any]:
    placement = leased.placement
    meta = {"task_name": placement.task, "task_path": placement.task_path, "instruction": placement.instruction}
    context = {"uid": leased.name, "group_index": 0, "sample_index": 0, "log_dir": ""}
    return {"lease_id": leased.lease_id, "task_meta": meta, "run_ctx": context}


@contextmanager
def _asked(server: Server) -> Iterator[None]:
    server.asked += 1
    try:
        yield
    finally:
        server.asked -= 1


@contextmanager
def _used(server: Server, task: str) -> Iterator[None]:
    """Count a lease as used until a fresher status does."""
    server.free -= 1
    server.tasks[task] = server.tasks.get(task, 0) + 1
    try:
        yield
    finally:
        server.free += 1
        server.tasks[task] = max(0, server.tasks.get(task, 1) - 1)
        if not server.tasks[task]:
            server.tasks.pop(task, None)


async def _cancel(task: asyncio.Task[Leased]) -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()
