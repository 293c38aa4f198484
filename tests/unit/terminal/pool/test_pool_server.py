"""Our pool server over real HTTP: the older client's words, and what the older server lacked."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.errors import BadInput, Refused
from t1cli.spec.sandbox import LocalSandbox
from t1cli.terminal.sandbox.leases import LeaseBook
from t1cli.terminal.sandbox.local import LocalProvider, bubblewrap_problem
from t1cli.terminal.sandbox.pool.keeper import LeaseKeeper
from t1cli.terminal.sandbox.pool.operations import Pool
from t1cli.terminal.sandbox.pool.server import Address, serve
from t1cli.terminal.sandbox.pool.settings import PoolSettings, PoolTimes
from t1cli.terminal.sandbox.process_identity import ProcessIdentity
from t1cli.terminal.tasks.load import load_task

TASKS = Path(__file__).parents[4] / "experiments/quickstart/tasks"
IMPATIENT = httpx.Timeout(60, read=0.3)
"""Has its request delivered, and does not wait for the answer."""


async def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        await asyncio.sleep(0.01)


def test_an_older_client_goes_through_a_whole_trial_unchanged(pools: SimpleNamespace, tmp_path: Path) -> None:
    """Every route, with the field names and answers that OpenClaw-RL's client uses; real sandbox, real tests."""
    if bubblewrap_problem():
        pytest.skip(bubblewrap_problem())
    task = sorted(path for path in TASKS.iterdir() if path.is_dir())[0]
    provider = LocalProvider(LocalSandbox(capacity=4), tmp_path / "sandboxes")

    async def whole() -> None:
        async with pools.our_pool(tmp_path, provider, dataset=TASKS) as site:
            assert (await site.http.get("/healthz")).json() == {"ok": True}
            key = f"{task.name}:{task.name}"
            granted = (await site.post("/allocate", task_key=key, request_id=f"{key}:u:0:0")).json()
            assert granted["ok"] and granted["reused"] is False
            again = (await site.post("/allocate", task_key=key, request_id=f"{key}:u:0:0")).json()
            assert again["lease_id"] == granted["lease_id"] and again["reused"] is True
            lease = granted["lease_id"]
            meta = {"task_name": task.name, "task_path": task.name, "instruction": "do it"}
            context = {"uid": "u", "group_index": 0, "sample_index": 0, "log_dir": ""}
            ready = (await site.post("/reset", lease_id=lease, task_meta=meta, run_ctx=context)).json()
            assert ready["user_msg"] == "do it" and len(ready["tool_schemas"]) == 4
            assert (await site.post("/heartbeat", lease_id=lease)).json() == {"ok": True}
            script = (task / "solution" / "solve.sh").read_text()

            async def tool(name: str, **arguments: object) -> str:
                call = {"name": name, "arguments": arguments}
                return (await site.post("/exec_tool", lease_id=lease, tool_call=call)).json()["observation"]

            assert await tool("shell_exec", id="s", command="echo out; echo err >&2") == "out\nerr\n"
            assert (await tool("shell_teleport")).startswith("[TOOL_ERROR] no tool named")
            assert "runs" in await tool("shell_exec", id="bg", command="read line; echo got $line", block=False)
            assert await tool("shell_write_to_process", id="bg", command="hello") == "written"
            deadline = time.monotonic() + 120
            while "got hello" not in await tool("shell_view", id="bg") and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
            assert await tool("shell_view", id="bg") == "got hello\n"
            before = (await site.post("/evaluate", lease_id=lease)).json()
            await tool("shell_write_content_to_file", content=script, file_path="/tmp/solve.sh")
            await tool("shell_exec", id="s", command="sh /tmp/solve.sh")
            after = (await site.post("/evaluate", lease_id=lease)).json()
            assert before["score"] < 1.0 and after["score"] == 1.0 and after["reward_source"] == "ctrf"
            pool = (await site.http.get("/status")).json()["pool"]
            assert pool["total_active_runs"] == 1 and pool["tasks"] == {key: {"active_runs": 1}}
            assert (await site.post("/close", lease_id=lease)).json() == {"ok": True, "found": True}
            await until(lambda: not site.pool.keeper.closing)
            assert (await site.post("/close", lease_id=lease)).json() == {"ok": True, "found": False}

    asyncio.run(whole())


def run(
    pools: SimpleNamespace, directory: Path, body: Callable[..., Awaitable[None]], *given: object, **settings: object
) -> None:
    async def whole() -> None:
        async with pools.our_pool(directory, *given, **settings) as site:
            await body(site)

    asyncio.run(whole())


@pytest.mark.catalogue("S3")
def test_defect_1_an_expired_lease_makes_room_and_its_sandbox_is_closed(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def body(site: SimpleNamespace) -> None:
        first = await site.lease(request_id="one")
        await site.post("/v1/create", lease_id=first)
        await asyncio.sleep(0.25)
        second = await site.lease(request_id="two")
        assert second != first and not site.provider.alive
        assert (await site.post("/heartbeat", lease_id=first)).status_code == 404

    # The reaper is away: allocating alone has to do it.
    run(pools, tmp_path, body, max_tasks=1, max_runs_per_task=1, idle_seconds=0.2, reap_every_seconds=60.0)


def test_defect_2_an_operation_in_flight_keeps_its_lease(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def body(site: SimpleNamespace) -> None:
        lease, idle = await site.lease(), await site.lease()
        for one in (lease, idle):
            await site.post("/v1/create", lease_id=one)
        answer = await site.post("/v1/exec", lease_id=lease, command="slow 3.0", timeout_seconds=120)
        assert answer.json()["output"] == "ran slow 3.0\n"
        assert (await site.post("/heartbeat", lease_id=lease)).status_code == 200
        assert (await site.post("/heartbeat", lease_id=idle)).status_code == 404, "one that nobody uses is reaped"

    run(pools, tmp_path, body, idle_seconds=2.0)


@pytest.mark.catalogue("S2")
def test_defect_4_a_full_pool_queues_and_refuses_only_when_the_line_is_full(
    pools: SimpleNamespace, tmp_path: Path
) -> None:
    async def body(site: SimpleNamespace) -> None:
        held = await site.lease("a")
        waiting = [asyncio.create_task(site.post("/allocate", task_key=f"a{n}")) for n in range(3)]
        await until(lambda: len(site.pool.keeper.line) == 3)
        refused = await site.post("/allocate", task_key="late")
        assert refused.status_code == 429 and refused.json()["code"] == "QUEUE_FULL"
        assert int(refused.headers["retry-after"]) >= 1
        timed_out = asyncio.create_task(site.post("/allocate", task_key="a3", wait_seconds=0.1))
        assert (await timed_out).status_code == 429
        for _ in range(3):
            await site.post("/close", lease_id=held, wait=True)
            await until(lambda: any(task.done() for task in waiting))
            done = next(task for task in waiting if task.done())
            waiting.remove(done)
            held = done.result().json()["lease_id"]
        late = await site.post("/allocate", task_key="x", wait_seconds=0.1)
        assert late.status_code == 503 and late.json()["code"] == "QUEUE_TIMEOUT"

    run(pools, tmp_path, body, max_tasks=1, max_runs_per_task=1, max_waiting=3)


def test_defect_5_a_request_id_runs_a_command_once(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def body(site: SimpleNamespace) -> None:
        lease = await site.lease()
        await site.post("/v1/create", lease_id=lease)
        both = [site.post("/v1/exec", lease_id=lease, request_id="r", command="slow 0.2", timeout_seconds=9)] * 1
        both += [site.post("/v1/exec", lease_id=lease, request_id="r", command="slow 0.2", timeout_seconds=9)]
        answers = await asyncio.gather(*both)
        later = await site.post("/v1/exec", lease_id=lease, request_id="r", command="slow 0.2", timeout_seconds=9)
        assert len({answer.text for answer in [*answers, later]}) == 1
        assert site.provider.commands == ["slow 0.2"]

    run(pools, tmp_path, body)


def test_defect_5_a_client_without_ids_that_lost_an_answer_runs_its_command_once(
    pools: SimpleNamespace, tmp_path: Path
) -> None:
    async def body(site: SimpleNamespace) -> None:
        lease = await site.lease()
        await site.post("/v1/create", lease_id=lease)
        call = {"name": "shell_exec", "arguments": {"id": "s", "command": "slow 1.0"}}
        with pytest.raises(httpx.ReadTimeout):
            await site.http.post("/exec_tool", json={"lease_id": lease, "tool_call": call}, timeout=IMPATIENT)
        again = await site.post("/exec_tool", lease_id=lease, tool_call=call)
        assert again.json()["observation"] == "ran slow 1.0\n" and site.provider.commands == ["slow 1.0"]
        # Once its answer has arrived, the same words are a new command.
        await site.post("/exec_tool", lease_id=lease, tool_call=call)
        assert site.provider.commands == ["slow 1.0"] * 2

    run(pools, tmp_path, body)


@pytest.mark.catalogue("S3")
def test_defect_6_a_failed_reset_is_made_again_on_a_new_machine_and_a_second_failure_ends_the_lease(
    pools: SimpleNamespace, tmp_path: Path
) -> None:
    task = sorted(path for path in TASKS.iterdir() if path.is_dir())[0]

    async def body(site: SimpleNamespace) -> None:
        meta = {"task_path": task.name}
        site.provider.failures = 1
        lease = await site.lease()
        assert (await site.post("/reset", lease_id=lease, task_meta=meta)).status_code == 200
        assert (await site.post("/reset", lease_id=lease, task_meta=meta)).status_code == 200
        assert len(site.provider.alive) == 1 and len(set(site.provider.names)) == 3
        site.provider.failures = 2
        refused = await site.post("/reset", lease_id=lease, task_meta=meta)
        assert refused.status_code == 500 and refused.json()["code"] == "RESET_FAILED"
        await until(lambda: site.pool.keeper.usage.total == 0)
        assert not site.provider.alive

    run(pools, tmp_path, body, dataset=TASKS)


def test_defect_7_eight_runs_of_one_task_prepare_it_once(pools: SimpleNamespace, tmp_path: Path) -> None:
    prepared: list[Path] = []
    task = sorted(path for path in TASKS.iterdir() if path.is_dir())[0]

    async def prepare(place: Path) -> object:
        prepared.append(place)
        await asyncio.sleep(0.1)
        if len(prepared) == 1:
            raise OSError("the registry is away")
        return load_task(place)

    async def body(site: SimpleNamespace) -> None:
        leases = [await site.lease(task.name) for _ in range(8)]
        meta = {"task_path": task.name}
        first = await site.post("/reset", lease_id=leases[0], task_meta=meta)
        assert first.status_code == 500 and len(prepared) == 1, "a failure is nobody's image"
        answers = await asyncio.gather(*(site.post("/reset", lease_id=one, task_meta=meta) for one in leases))
        assert [answer.status_code for answer in answers] == [200] * 8 and len(prepared) == 2

    run(pools, tmp_path, body, dataset=TASKS, prepare=prepare)


def test_defect_8_a_place_is_free_when_its_machine_is_gone(pools: SimpleNamespace, tmp_path: Path) -> None:
    provider = pools.MemoryProvider(close_seconds=0.05)

    async def body(site: SimpleNamespace) -> None:
        async def one(number: int) -> None:
            lease = await site.lease(f"t{number % 3}")
            await site.post("/v1/create", lease_id=lease)
            await site.post("/close", lease_id=lease)

        await asyncio.gather(*(one(number) for number in range(20)))
        await until(lambda: not site.provider.alive)
        assert site.provider.most_alive <= 4

    run(pools, tmp_path, body, provider, max_tasks=2, max_runs_per_task=2)


def test_defect_9_an_unknown_lease_is_404_on_every_route(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def body(site: SimpleNamespace) -> None:
        meta, call = {"task_path": "x"}, {"name": "shell_exec", "arguments": {}}
        bodies = {"/heartbeat": {}, "/reset": {"task_meta": meta}, "/exec_tool": {"tool_call": call}, "/evaluate": {}}
        bodies |= {"/v1/exec": {"command": "x"}, "/v1/create": {}, "/v1/read_file": {"path": "/x"}}
        for path, content in bodies.items():
            answer = await site.http.post(path, json={"lease_id": "run-none", **content})
            assert (answer.status_code, answer.json()["code"]) == (404, "UNKNOWN_LEASE"), path
            assert "Unknown run_lease_id" in answer.json()["error"]

    run(pools, tmp_path, body)


_HOLDER = """
import asyncio, json, sys, httpx
async def main():
    async with httpx.AsyncClient(base_url=sys.argv[1], timeout=120, trust_env=False) as http:
        for n in range(3):
            lease = (await http.post("/allocate", json={"task_key": "t", "request_id": str(n)})).json()["lease_id"]
            await http.post("/v1/create", json={"lease_id": lease})
            body = {"lease_id": lease, "command": "sleep 400 & echo x", "timeout_seconds": 9}
            assert (await http.post("/v1/exec", json=body)).status_code == 200
        print(lease)
asyncio.run(main())
"""


def start_server(directory: Path, *options: str) -> tuple[subprocess.Popen[str], dict[str, object]]:
    argv = [sys.executable, "-c", "from t1cli.cli.app import main; main()", "pool", "serve"]
    argv += ["--port", "0", "--directory", str(directory), *options]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def test_a_second_server_in_a_directory_is_refused_and_touches_nothing(tmp_path: Path) -> None:
    process, _ = start_server(tmp_path)
    try:
        (tmp_path / "uploads" / "on-its-way").touch()
        result = CliRunner().invoke(app, ["pool", "serve", "--port", "0", "--directory", str(tmp_path)])
        assert result.exit_code == 1 and "another pool server works in this directory" in result.stderr
        assert (tmp_path / "uploads" / "on-its-way").exists()
    finally:
        process.terminate()
        assert process.wait(120) == 0


def processes_of(directory: Path) -> list[ProcessIdentity]:
    book = LeaseBook(directory / "sandboxes")
    return [process for lease in book.leases() for process in lease.processes if process.alive]


@pytest.mark.catalogue("S3", "S4")
@pytest.mark.skipif(bool(bubblewrap_problem()), reason="no bubblewrap")
def test_defect_10_a_killed_server_leaves_nothing_and_its_successor_knows_what_there_was(tmp_path: Path) -> None:
    process, place = start_server(tmp_path)
    url = f"http://127.0.0.1:{place['port']}"
    lease = subprocess.run([sys.executable, "-c", _HOLDER, url], capture_output=True, text=True, check=True).stdout
    assert len(processes_of(tmp_path)) == 6
    os.kill(process.pid, signal.SIGKILL)
    process.wait(120)
    (tmp_path / "uploads" / "half").mkdir()
    process, place = start_server(tmp_path, "--drain-seconds", "0")
    try:
        assert place["closed_leases"] == 3 and not list((tmp_path / "uploads").iterdir())
        deadline = time.monotonic() + 120
        while processes_of(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not processes_of(tmp_path)
        url = f"http://127.0.0.1:{place['port']}"
        answer = httpx.post(f"{url}/heartbeat", json={"lease_id": lease.strip()}, trust_env=False)
        assert answer.status_code == 404
        assert httpx.get(f"{url}/status", trust_env=False).json()["pool"]["free"] == 128
    finally:
        process.terminate()
        assert process.wait(120) == 0


@pytest.mark.skipif(bool(bubblewrap_problem()), reason="no bubblewrap")
def test_defect_11_a_score_counts_what_passed_and_nothing_that_was_skipped(
    pools: SimpleNamespace, tmp_path: Path
) -> None:
    source = sorted(path for path in TASKS.iterdir() if path.is_dir())[0]
    task = tmp_path / "tasks" / "skipping"
    (task / "tests").mkdir(parents=True)
    (task / "task.toml").write_text('version = "1.0"\n')
    (task / "instruction.md").write_text("nothing\n")
    (task / "tests" / "test.sh").write_bytes((source / "tests" / "test.sh").read_bytes())
    tests = "import pytest\ndef test_a(): pass\ndef test_b(): pytest.skip()\ndef test_c(): assert False\n"
    (task / "tests" / "test_outputs.py").write_text(tests)

    async def body(site: SimpleNamespace) -> None:
        lease = await site.lease()
        await site.post("/reset", lease_id=lease, task_meta={"task_path": "skipping"})
        answer = (await site.post("/evaluate", lease_id=lease)).json()
        assert (answer["score"], answer["passed"], answer["total"]) == (0.5, 1, 2)

    run(pools, tmp_path, body, LocalProvider(LocalSandbox(), tmp_path / "s"), dataset=tmp_path / "tasks")


def test_a_client_that_leaves_the_line_gets_no_lease(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def body(site: SimpleNamespace) -> None:
        held = await site.lease()
        with pytest.raises(httpx.ReadTimeout):
            await site.http.post("/allocate", json={"task_key": "t", "request_id": "gone"}, timeout=IMPATIENT)
        await until(lambda: len(site.pool.keeper.line) == 0)
        await site.post("/close", lease_id=held, wait=True)
        assert site.pool.keeper.usage.total == 0

    run(pools, tmp_path, body, max_tasks=1, max_runs_per_task=1)


def test_a_lease_whose_answer_reached_nobody_is_found_again_or_ends_soon(
    pools: SimpleNamespace, tmp_path: Path
) -> None:
    async def body(site: SimpleNamespace) -> None:
        granted = await site.lease(request_id="r")
        assert await site.lease(request_id="r") == granted
        await until(lambda: site.pool.keeper.usage.total == 0)
        assert await site.lease(request_id="r") != granted

    run(pools, tmp_path, body, undelivered_seconds=2.0)


def test_tokens_are_asked_for_and_keep_clients_apart(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def body(site: SimpleNamespace) -> None:
        assert (await site.http.get("/healthz")).status_code == 200
        assert (await site.http.get("/status")).status_code == 401
        assert (await site.post("/allocate", task_key="t")).status_code == 401
        ours, theirs = ({"authorization": f"Bearer {secret * 16}"} for secret in "ab")
        granted = await site.http.post("/allocate", json={"task_key": "t"}, headers=ours)
        lease = {"lease_id": granted.json()["lease_id"]}
        assert (await site.http.post("/heartbeat", json=lease, headers=theirs)).status_code == 404
        assert (await site.http.post("/close", json=lease, headers=theirs)).json()["found"] is False
        assert (await site.http.get("/v1/leases", headers=theirs)).json()["leases"] == []
        assert len((await site.http.get("/v1/leases", headers=ours)).json()["leases"]) == 1

    run(pools, tmp_path, body, tokens=(("us", "a" * 16), ("them", "b" * 16)))


def test_a_server_beyond_loopback_needs_tokens(pools: SimpleNamespace, tmp_path: Path) -> None:
    pool = Pool(PoolSettings(tmp_path), pools.MemoryProvider())
    with pytest.raises(BadInput, match="reachable from other machines"):
        asyncio.run(serve(pool, Address("0.0.0.0", 0), ready=lambda _: None))


def test_draining_refuses_new_leases_and_lets_live_ones_finish(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def body(site: SimpleNamespace) -> None:
        lease = await site.lease("t")
        await site.post("/v1/create", lease_id=lease)
        waiting = asyncio.create_task(site.post("/allocate", task_key="t"))
        await until(lambda: len(site.pool.keeper.line) == 1)
        draining = asyncio.create_task(site.pool.keeper.drain())
        assert (await waiting).json()["code"] == "DRAINING"
        assert (await site.post("/allocate", task_key="t")).status_code == 503
        ran = await site.post("/v1/exec", lease_id=lease, command="slow 0.2", timeout_seconds=9)
        assert ran.status_code == 200 and not draining.done()
        await site.post("/close", lease_id=lease)
        await asyncio.wait_for(draining, 120)

    run(pools, tmp_path, body, max_tasks=1, max_runs_per_task=1, drain_seconds=30.0)


def test_what_is_no_request_is_400_and_never_500(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def body(site: SimpleNamespace) -> None:
        lease = await site.lease()
        await site.post("/v1/create", lease_id=lease)
        wrong = [
            ("/allocate", {}),
            ("/allocate", {"task_key": 3}),
            ("/allocate", {"task_key": "t", "wait_seconds": -1}),
            ("/heartbeat", {}),
            ("/reset", {"lease_id": lease, "task_meta": "x"}),
            ("/reset", {"lease_id": lease, "task_meta": {"task_path": "../../etc"}}),
            ("/exec_tool", {"lease_id": lease, "tool_call": "x"}),
            ("/v1/exec", {"lease_id": lease, "command": "x", "env": {"a": 1}}),
            ("/v1/put_directory", {"lease_id": lease, "target": "/x", "files": [{"path": "../up", "content": ""}]}),
        ]
        for path, content in wrong:
            assert (await site.http.post(path, json=content)).status_code == 400, (path, content)
        assert (await site.http.post("/allocate", content=b"{")).status_code == 400
        assert (await site.http.get("/nowhere")).status_code == 404
        assert (await site.http.get("/allocate")).status_code == 405

    run(pools, tmp_path, body, dataset=TASKS)


ODD_TEXTS = ("\0", "/a\0b", "/\ud800")
ODD_FIELDS = [
    ("/reset", {"task_meta": {"task_path": "?"}}),
    ("/v1/exec", {"command": "true", "cwd": "?"}),
    ("/v1/exec", {"command": "true", "env": {"A": "?"}}),
    ("/v1/pytest", {"arguments": ["?"], "cwd": "/", "reward": "/r"}),
    ("/v1/put_directory", {"target": "?", "files": []}),
    ("/v1/put_directory", {"target": "/x", "files": [{"path": "?", "content": ""}]}),
    ("/v1/reset_directory", {"path": "?"}),
    ("/v1/read_file", {"path": "?"}),
]
NO_FILES = [
    [{"path": "a", "content": "aGk="}, {"path": "a/b", "content": "aGk="}],
    [{"path": "d", "directory": True}, {"path": "d", "content": "aGk="}],
    [{"path": ".", "content": "aGk="}],
    [{"path": "x" * 300, "content": "aGk="}],
    [{"path": "a", "content": "no base64: \u00e9"}],
]


def test_what_no_kernel_takes_is_400_with_the_name_of_the_field(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def body(site: SimpleNamespace) -> None:
        lease = await site.lease()
        await site.post("/v1/create", lease_id=lease)

        async def said(path: str, content: dict) -> httpx.Response:
            return await site.http.post(path, content=json.dumps({"lease_id": lease, **content}))

        for odd in ODD_TEXTS:
            for path, content in ODD_FIELDS:
                whole = json.loads(json.dumps(content).replace('"?"', json.dumps(odd)))
                answer = await said(path, whole)
                assert answer.status_code == 400 and ("half a character" in answer.text or "env" in answer.text), whole
        for name in ("A=B", "", "A\0"):
            assert (await said("/v1/exec", {"command": "true", "env": {name: "x"}})).status_code == 400
        for files in NO_FILES:
            assert (await said("/v1/put_directory", {"target": "/x", "files": files})).status_code == 400, files
        assert (await said("/reset", {"task_meta": {"task_path": "x" * 300}})).status_code == 400
        call = {"name": "shell_exec", "arguments": {"command": "true", "timeout": 10**400}}
        assert (await said("/exec_tool", {"tool_call": call})).status_code == 200

    run(pools, tmp_path, body, dataset=TASKS)


@pytest.mark.parametrize(
    ("failure", "code"), [(OSError(28, "No space left"), "SERVER_TROUBLE"), (TypeError("x"), "SERVER_BUG")]
)
def test_a_server_that_fails_says_so_in_json_and_in_one_line(
    failure: Exception, code: str, pools: SimpleNamespace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(site: SimpleNamespace) -> None:
        async def fail(*_: object, **__: object) -> None:
            raise failure

        lease = await site.lease()
        site.pool.provider.create = fail
        site.pool._made = fail
        answer = await site.post("/v1/create", lease_id=lease)
        assert answer.status_code == 500 and answer.json()["code"] == code
        assert (await site.http.get("/status")).status_code == 200

    run(pools, tmp_path, body)
    assert [record.exc_info for record in caplog.records if record.levelname == "ERROR"] == [None]


def test_a_lease_that_cannot_be_recorded_is_refused_and_the_line_goes_on(
    pools: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(site: SimpleNamespace) -> None:
        held = await site.lease()
        waiting = asyncio.create_task(site.post("/allocate", task_key="second", request_id="second"))
        await until(lambda: len(site.pool.keeper.line) == 1)

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(site.pool.keeper.journal, "granted", full)
        monkeypatch.setattr(site.pool.keeper.journal, "closed", full)
        assert (await site.post("/close", lease_id=held, wait=True)).status_code == 200
        refused = await waiting
        assert refused.status_code == 503 and refused.json()["code"] == "SERVER_TROUBLE"
        assert "retry-after" in refused.headers and site.pool.keeper.usage.total == 0
        monkeypatch.undo()
        assert (await site.post("/allocate", task_key="third")).status_code == 200

    run(pools, tmp_path, body, max_tasks=1, max_runs_per_task=1)


def test_what_still_runs_when_its_lease_is_closed_is_told_so(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def body(site: SimpleNamespace) -> None:
        lease = await site.lease()
        await site.post("/v1/create", lease_id=lease)
        running = asyncio.create_task(site.post("/v1/exec", lease_id=lease, command="slow 60"))
        await until(lambda: "slow 60" in site.pool.provider.commands)
        assert (await site.post("/close", lease_id=lease, wait=True)).status_code == 200
        answer = await running
        assert answer.status_code == 404 and answer.json()["code"] == "UNKNOWN_LEASE"

    run(pools, tmp_path, body)


def test_metrics_tell_what_happened(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def body(site: SimpleNamespace) -> None:
        lease = await site.lease()
        await site.post("/v1/create", lease_id=lease)
        await site.post("/heartbeat", lease_id="none")
        text = (await site.http.get("/metrics")).text
        for line in (
            "t1_pool_leases 1",
            "t1_pool_granted_total 1",
            "t1_pool_unknown_lease_total 1",
            "t1_pool_free 127",
        ):
            assert line in text.splitlines(), line
        assert 't1_pool_wait_seconds_bucket{le="+Inf"} 1' in text

    run(pools, tmp_path, body)


@pytest.mark.parametrize("content", [b"name: x\n", bytes(range(256)), b'{"time": 1, "did": "told"}\n', b"[1]\n"])
def test_a_journal_of_somebody_else_is_refused_and_kept(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_bytes(content)
    keeper = LeaseKeeper(PoolSettings(directory=tmp_path))
    with pytest.raises(Refused, match="no journal of a pool server"):
        keeper.recover()
    assert (tmp_path / "journal.jsonl").read_bytes() == content


def test_the_journal_has_a_lease_before_its_sandbox_and_is_compacted(pools: SimpleNamespace, tmp_path: Path) -> None:
    async def body(site: SimpleNamespace) -> None:
        lease = await site.lease(request_id="r", owner="run/1/2")
        site.provider.failures = 1
        assert (await site.post("/v1/create", lease_id=lease)).status_code == 500
        events = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
        assert [event["event"] for event in events] == ["granted", "creating"]
        assert events[0]["owner"] == "run/1/2" and events[1]["name"] == site.provider.names[0]
        await site.post("/close", lease_id=lease, wait=True)
        await site.pool.prune()
        assert (tmp_path / "journal.jsonl").read_text() == ""

    run(pools, tmp_path, body, times=PoolTimes())
