"""Our client against OpenClaw-RL's pool as its source reads, defect by defect, and against failing ones of ours."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from t1cli.spec.reward import CtrfCount
from t1cli.spec.sandbox import PoolSandbox
from t1cli.terminal.rewards.reward import reward_of
from t1cli.terminal.rewards.verifier import grade
from t1cli.terminal.sandbox.pool.calls import ServerAway
from t1cli.terminal.sandbox.pool.client import PoolProvider
from t1cli.terminal.sandbox.sandbox import Placement, SandboxError
from t1cli.terminal.tasks.task import Task


def spec(*urls: str, **changes: Any) -> PoolSandbox:
    return PoolSandbox(urls=urls, max_tasks=16, max_runs_per_task=8, wait_seconds=changes.pop("wait_seconds", 60.0))


@contextlib.asynccontextmanager
async def client(directory: Path, *urls: str, **changes: Any) -> AsyncIterator[PoolProvider]:
    provider = PoolProvider(spec(*urls, **changes), directory)
    try:
        yield provider
    finally:
        await provider.close()


def run(whole: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(whole())


async def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        await asyncio.sleep(0.01)


def beating(provider: PoolProvider, seconds: float) -> None:
    """Heartbeats as often as a server with a short limit needs them; an older one does not say what its limit is."""
    for server in provider._parts().servers:
        server.idle_seconds = seconds
        server.saw = lambda status, saw=server.saw, s=server: (saw(status), setattr(s, "idle_seconds", seconds))


def test_defects_1_and_2_heartbeats_keep_leases_while_idle_and_while_a_command_runs(
    pools: SimpleNamespace, tmp_path: Path
) -> None:
    async def whole() -> None:
        async with (
            pools.patient_clock() as now,
            pools.listening(
                older := pools.OlderPool(idle_seconds=4.0, max_tasks=1, max_runs_per_task=2, now=now)
            ) as url,
            client(tmp_path, url) as provider,
        ):
            beating(provider, 0.6)
            one, two = [await _create(provider, name, "same") for name in ("one", "two")]
            result = await one.exec("sleep 6; echo done", timeout_seconds=120)
            assert (result.output, result.exit_code) == ("done\n", 0)
            assert (await two.exec("echo alive", timeout_seconds=120, cwd="/tmp")).output == "alive\n"
            await one.close()
            await two.close()
            await until(lambda: not older.containers)
        assert not older.leases, "nothing was left to expire, so nothing leaked"

    run(whole)


def test_defect_3_servers_are_chosen_by_free_places_not_by_hash(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def whole() -> None:
        workers = [pools.OlderPool(max_tasks=4, max_runs_per_task=1) for _ in range(2)]
        async with contextlib.AsyncExitStack() as stack:
            urls = [await stack.enter_async_context(pools.listening(worker)) for worker in workers]
            http = [await stack.enter_async_context(pools.httpx.AsyncClient(base_url=url)) for url in urls]
            hot = [name for name in (f"task-{n}" for n in range(100)) if _worker_of(pools, name) == 0][:8]
            router = pools.OlderRouter(http)
            assert [(await router.allocate(name)).status_code for name in hot].count(429) == 4
            for worker in workers:
                worker.restart()
                worker.refused = 0
            provider = await stack.enter_async_context(client(tmp_path, *urls))
            sandboxes = await asyncio.gather(*(_create(provider, f"s{n}", name) for n, name in enumerate(hot)))
            assert len(sandboxes) == 8 and [len(worker.leases) for worker in workers] == [4, 4]
            assert sum(worker.refused for worker in workers) == 0

    run(whole)


def _worker_of(pools: SimpleNamespace, name: str) -> int:
    return int(pools.hashlib.sha1(name.encode()).hexdigest(), 16) % 2


async def _create(provider: PoolProvider, name: str, task: str) -> Any:
    await provider.reserve(name, owner="run", placement=Placement(task, task, task, "do it"))
    return await provider.create(name, owner="run")


@pytest.mark.catalogue("S2")
def test_defect_4_nobody_is_lost_to_a_429_that_others_cause(pools: SimpleNamespace, tmp_path: Path) -> None:
    """Two clients on one pool of four: each knows its own line only, so the server does refuse."""

    async def whole() -> None:
        older = pools.OlderPool(max_tasks=2, max_runs_per_task=2)
        done: list[str] = []
        async with (
            pools.listening(older) as url,
            client(tmp_path / "a", url) as first,
            client(tmp_path / "b", url) as second,
        ):

            async def one(provider: PoolProvider, name: str) -> None:
                sandbox = await _create(provider, name, f"task-{name[-1]}")
                await asyncio.sleep(0.02)
                await sandbox.close()
                done.append(name)

            await asyncio.gather(
                *(one(provider, f"{who}-{n}") for who, provider in (("a", first), ("b", second)) for n in range(12))
            )
        assert len(done) == 24 and older.granted == 24
        assert older.refused < 24 * 4, "a herd would have asked thousands of times"

    run(whole)


def test_defect_5_a_command_whose_answer_was_lost_is_not_run_again(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def whole() -> None:
        older = pools.OlderPool()
        async with pools.listening(older) as url, client(tmp_path, url) as provider:
            sandbox = await provider.create("one", owner="run")
            older.drop_answers_of = "/exec_tool"
            with pytest.raises(SandboxError, match="nobody knows whether the command ran"):
                await sandbox.exec("echo once", timeout_seconds=120, cwd="/tmp")
            assert len(older.commands) == 1

    run(whole)


@pytest.mark.catalogue("S3")
def test_defect_6_a_failed_reset_gets_one_new_lease_and_never_the_same_container(
    pools: SimpleNamespace, tmp_path: Path
) -> None:
    async def whole() -> None:
        older = pools.OlderPool(reset_failures=1)
        async with pools.listening(older) as url, client(tmp_path, url) as provider:
            sandbox = await provider.create("one", owner="run")
            assert len(older.resets) == len(set(older.resets)) == 2
            assert (await sandbox.exec("echo alive", timeout_seconds=120, cwd="/tmp")).output == "alive\n"
            await sandbox.close()
            older.reset_failures = 9
            with pytest.raises(SandboxError, match="cannot create two"):
                await provider.create("two", owner="run")
            assert len(older.resets) == 4 and not older.leases

    run(whole)


@pytest.mark.parametrize(("build_seconds", "hangs_up"), [(0.0, False), (0.3, True)])
def test_a_reset_whose_answer_was_lost_keeps_its_lease(
    pools: SimpleNamespace, tmp_path: Path, build_seconds: float, hangs_up: bool
) -> None:
    """Also when the connection breaks while the reset is still under way: the lease's next answer waits for it."""

    async def whole() -> None:
        older = pools.OlderPool(build_seconds=build_seconds, **({} if hangs_up else {"drop_answers_of": "/reset"}))
        async with pools.listening(older) as url, client(tmp_path, url) as provider:
            if hangs_up:
                _hang_up_on(provider, "/reset", lambda: bool(older.resets))
            sandbox = await provider.create("one", owner="run")
            assert len(older.resets) == older.granted == len(older.containers) == 1
            assert (await sandbox.exec("echo alive", timeout_seconds=120, cwd="/tmp")).output == "alive\n"
            await sandbox.close()
            assert not older.leases

    run(whole)


def _hang_up_on(provider: PoolProvider, path: str, arrived: Callable[[], bool]) -> None:
    """The client sends a request and is gone before the answer."""
    (server,) = provider._parts().servers
    post, sent = server.calls.post, []

    async def cut(wanted: str, body: dict[str, Any], **more: Any) -> dict[str, Any]:
        asking = asyncio.ensure_future(post(wanted, body, **more))
        if wanted != path:
            return await asking
        sent.append(asking)
        await until(arrived)
        raise ServerAway("the connection broke", reached=True)

    server.calls.post = cut


@pytest.mark.catalogue("S3")
def test_a_failed_reset_whose_answer_was_lost_gets_a_new_lease(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def whole() -> None:
        older = pools.OlderPool(reset_failures=1, drop_answers_of="/reset")
        async with pools.listening(older) as url, client(tmp_path, url) as provider:
            sandbox = await provider.create("one", owner="run")
            assert len(set(older.resets)) == older.granted == 2 and older.commands == []
            await sandbox.close()

    run(whole)


def test_defect_7_the_first_build_of_a_task_runs_alone(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def whole() -> None:
        older = pools.OlderPool(build_seconds=0.1)
        async with pools.listening(older) as url, client(tmp_path, url) as provider:
            creating = [asyncio.create_task(_create(provider, f"s{n}", "same")) for n in range(8)]
            await until(lambda: len(older.resets) > 1)
            assert older.most_builds_at_once <= 7 and older.resets, "the second began after the first had built"
            first_alone = older.containers
            assert len(first_alone) >= 1
            await asyncio.gather(*creating)

    run(whole)


@pytest.mark.parametrize("travel_seconds", [0.0, 0.1])
def test_defect_8_never_more_machines_than_places(
    pools: SimpleNamespace, tmp_path: Path, travel_seconds: float
) -> None:
    """Also while a lease that took a free place is on its way, which no status counts yet."""

    async def whole() -> None:
        older = pools.OlderPool(max_tasks=2, max_runs_per_task=2, close_seconds=0.3, travel_seconds=travel_seconds)
        async with pools.listening(older) as url, client(tmp_path, url) as provider:

            async def one(number: int) -> None:
                sandbox = await _create(provider, f"s{number}", f"t{number % 2}")
                await asyncio.sleep(number % 4 * travel_seconds * 2)
                await sandbox.close()

            await asyncio.gather(*(one(number) for number in range(16)))
        # A reset whose answer was lost on the way is made again on a lease of its own.
        assert older.granted >= 16 and older.most_containers <= 4

    run(whole)


def test_defects_9_and_10_a_restarted_server_is_a_lost_sandbox_and_the_next_one_works(
    pools: SimpleNamespace, tmp_path: Path
) -> None:
    async def whole() -> None:
        older = pools.OlderPool()
        async with pools.listening(older) as url, client(tmp_path, url) as provider:
            beating(provider, 0.4)
            sandbox = await provider.create("one", owner="run")
            leased = provider._parts()._held["one"]
            older.restart()
            with pytest.raises(SandboxError, match="Unknown run_lease_id"):
                await sandbox.exec("echo no", timeout_seconds=120)
            await until(lambda: leased.lost)
            await sandbox.close()
            again = await provider.create("two", owner="run")
            assert (await again.exec("echo alive", timeout_seconds=120, cwd="/tmp")).output == "alive\n"

    run(whole)


def test_defect_11_an_older_score_is_never_taken_for_a_count_of_tests(pools: SimpleNamespace, tmp_path: Path) -> None:
    task = Task("t", tmp_path, "do it", "f", "1", None, 30.0, expected_tests=4)

    async def whole() -> None:
        older = pools.OlderPool(tests=("passed", "skipped", "skipped", "failed"))
        async with pools.listening(older) as url, client(tmp_path, url) as provider:
            sandbox = await provider.create("one", owner="run")
            verdict = await grade(task, sandbox, trial_dir=tmp_path / "trial")
            reward = reward_of(verdict, CtrfCount(), turns=1, response_tokens=100)
            assert (verdict.solved, verdict.ctrf, reward.value, reward.source) == (False, "missing", 0.0, "fallback")
            older.tests = ("passed", "skipped")
            verdict = await grade(task, sandbox, trial_dir=tmp_path / "again")
            assert verdict.solved and reward_of(verdict, CtrfCount(), turns=1, response_tokens=9).source == "fallback"

    run(whole)


def test_files_go_through_an_older_server_byte_by_byte(pools: SimpleNamespace, tmp_path: Path) -> None:
    source, inside = tmp_path / "source", tmp_path / "inside"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "data").write_bytes(bytes(range(256)) * 400)

    async def whole() -> None:
        async with pools.listening(pools.OlderPool()) as url, client(tmp_path / "c", url) as provider:
            sandbox = await provider.create("one", owner="run")
            await sandbox.put_directory(source, str(inside), read_only=False)
            assert await sandbox.read_file(f"{inside}/sub/data", max_bytes=1 << 20) == bytes(range(256)) * 400
            assert await sandbox.read_file(f"{inside}/absent", max_bytes=9) is None
            result = await sandbox.exec("exit 7", timeout_seconds=120, cwd="/tmp", env={"A": "it's"})
            assert result.exit_code == 7
            late = await sandbox.exec("sleep 30", timeout_seconds=0.3, cwd="/tmp")
            assert late.timed_out and late.exit_code == 124

    run(whole)


def test_a_lost_answer_of_our_server_is_asked_for_again_and_runs_once(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def whole() -> None:
        async with pools.our_pool(tmp_path / "pool") as site:
            dropped: list[str] = []

            async def flaky(scope: Any, receive: Any, send: Any) -> None:
                if scope["type"] == "http" and scope["path"] == "/v1/exec" and len(dropped) < 2:
                    dropped.append(scope["path"])

                    async def into_nothing(message: Any) -> None:
                        return None

                    await pools.PoolApp(site.pool)(scope, receive, into_nothing)
                    raise ConnectionError("the answer is lost")
                await pools.PoolApp(site.pool)(scope, receive, send)

            async with pools.listening(flaky) as url, client(tmp_path, url) as provider:
                sandbox = await provider.create("one", owner="run")
                result = await sandbox.exec("slow 0.1", timeout_seconds=120)
                assert result.output == "ran slow 0.1\n"
                assert site.provider.commands == ["slow 0.1"] and len(dropped) == 2

    run(whole)


def test_leases_fail_over_to_another_server_and_come_back(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def whole() -> None:
        async with pools.our_pool(tmp_path / "pool", max_tasks=4, max_runs_per_task=4) as site:
            nobody = "http://127.0.0.1:9"
            async with client(tmp_path, nobody, site.url) as provider:
                sandboxes = await asyncio.gather(*(provider.create(f"s{n}", owner="run") for n in range(4)))
                assert len(sandboxes) == 4 and len(site.provider.alive) == 4
                await asyncio.gather(*(sandbox.close() for sandbox in sandboxes))
                assert not site.provider.alive and site.pool.keeper.usage.total == 0

    run(whole)


def test_task_affinity_decides_only_between_servers_with_room(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def whole() -> None:
        limits = {"max_tasks": 4, "max_runs_per_task": 2}
        async with (
            pools.our_pool(tmp_path / "a", **limits) as a,
            pools.our_pool(tmp_path / "b", **limits) as b,
            client(tmp_path, a.url, b.url) as provider,
        ):
            for number in range(4):
                await _create(provider, f"s{number}", "same")
            runs = sorted(site.pool.status()["total_active_runs"] for site in (a, b))
            assert runs == [2, 2], "two fit on the first server, and the others went to the second"
            for number in range(2):
                await _create(provider, f"other{number}", "other")
            assert sorted(s.pool.status()["active_tasks"] for s in (a, b)) == [1, 2], "the second kept the first's"

    run(whole)


def test_a_cancelled_wait_leaves_no_lease_and_no_place_in_the_line(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def whole() -> None:
        async with (
            pools.our_pool(tmp_path / "pool", max_tasks=1, max_runs_per_task=1) as site,
            client(tmp_path, site.url) as provider,
        ):
            held = await provider.create("held", owner="run")
            waiting = asyncio.create_task(provider.create("waits", owner="run"))
            await until(lambda: len(site.pool.keeper.line) == 1)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await until(lambda: len(site.pool.keeper.line) == 0)
            await held.close()
            assert site.pool.keeper.usage.total == 0
            assert all(lease.closed for lease in provider.book.leases())

    run(whole)


def test_a_server_that_stays_full_is_a_failure_of_the_provider_after_the_wait(
    pools: SimpleNamespace, tmp_path: Path
) -> None:
    async def whole() -> None:
        async with (
            pools.our_pool(tmp_path / "pool", max_tasks=1, max_runs_per_task=1) as site,
            client(tmp_path, site.url, wait_seconds=0.4) as provider,
        ):
            await provider.create("held", owner="run")
            with pytest.raises(SandboxError, match="no lease within"):
                await provider.create("late", owner="run")

    run(whole)


_DIES = """
import asyncio, os, sys
from pathlib import Path
from t1cli.spec.sandbox import PoolSandbox
from t1cli.terminal.sandbox.pool.calls import ServerAway
from t1cli.terminal.sandbox.pool.client import PoolProvider
async def main():
    provider = PoolProvider(PoolSandbox(urls=(sys.argv[1],), max_tasks=8, max_runs_per_task=8), Path(sys.argv[2]))
    for n in range(3):
        await provider.create(f"dies-{n}", owner="run")
    os.kill(os.getpid(), 9)
asyncio.run(main())
"""


def test_a_killed_client_is_swept_by_its_record_and_others_are_not(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def whole() -> None:
        async with pools.our_pool(tmp_path / "pool") as site, client(tmp_path, site.url) as provider:
            mine = await provider.create("mine", owner="run")
            import sys

            process = await asyncio.create_subprocess_exec(sys.executable, "-c", _DIES, site.url, str(tmp_path))
            assert await process.wait() == -9
            assert len(site.provider.alive) == 4
            assert sorted(await provider.sweep("run")) == ["dies-0", "dies-1", "dies-2"]
            await until(lambda: len(site.provider.alive) == 1)
            assert (await mine.exec("x", timeout_seconds=120)).exit_code == 0
            assert await provider.sweep("run") == ()

    run(whole)
