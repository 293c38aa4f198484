"""sandboxes: pool servers that really answer, one that says 429, a leaked sandbox, and limits by the spec."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from t1cli.preflight.check import Context
from t1cli.preflight.checks import sandboxes as sandbox_checks
from t1cli.preflight.checks.pool import draw_bins
from t1cli.preflight.fleet import Answer, Later, Probe
from t1cli.preflight.probes.containers import network_places
from t1cli.spec.locate import experiments_dir
from t1cli.terminal.sandbox.local import bubblewrap_problem
from t1cli.terminal.sandbox.sweep import sweep_directory
from tests.unit.preflight.conftest import Ask, MakeContext, nodes, one
from tests.unit.preflight.pool_double import pool_double, status

GRPO, STARVED = "qwen3-8b-grpo", "qwen3-8b-grpo-starved"
ROOM = "t1cli.preflight.probes.room:room"
CONTAINERS = "t1cli.preflight.probes.containers:containers"


def pooled(context_of: MakeContext, *urls: str, sets: tuple[str, ...] = ()) -> Context:
    """The Qwen3-8B campaign (128 leases) with these servers of 16 × 8 each."""
    return context_of(GRPO, f"sandbox.urls=[{','.join(json.dumps(url) for url in urls)}]", *sets)


@pytest.mark.catalogue("S1")
def test_the_starved_pool_is_refused_by_both_limits(context_of: MakeContext, ask: Ask) -> None:
    context = context_of(STARVED)
    assert ask("sandboxes.capacity", context).status == "fail"
    saw = ask("sandboxes.runs_per_task", context)
    assert saw.status == "fail" and (saw.found, saw.wanted) == ("4 runs per task", "8 samples per prompt")
    assert ask("sandboxes.capacity", context_of(GRPO)).status == "pass"


@pytest.mark.catalogue("S1")
def test_a_server_whose_leases_are_taken_or_still_closing(context_of: MakeContext, ask: Ask) -> None:
    with pool_double(status(total_active_runs=20, pending_closes=30)) as url:
        saw = ask("sandboxes.servers", pooled(context_of, url, sets=("sandbox.queueing=false",)))
        assert saw.status == "fail" and "78 free" in saw.found and "20 active, 30 closing of 128" in saw.found
    with pool_double(status()) as url:
        assert ask("sandboxes.servers", pooled(context_of, url)).status == "pass"
        saw = ask("sandboxes.servers", pooled(context_of, url, sets=("sandbox.max_runs_per_task=16",)))
        assert saw.status == "fail" and "holds 16 tasks x 8 runs (128 leases), the spec says 16 x 16" in saw.found


@pytest.mark.catalogue("S1")
def test_servers_that_are_away_or_something_else(context_of: MakeContext, ask: Ask) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        saw = ask("sandboxes.servers", pooled(context_of, url))
    assert saw.status == "fail" and "no answer: ConnectError" in saw.found
    with pool_double({"what": "is this"}) as url:
        assert "not that of a sandbox pool" in ask("sandboxes.servers", pooled(context_of, url)).found


@pytest.mark.catalogue("S2")
def test_a_pool_that_answers_429_is_told_as_full(
    context_of: MakeContext, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_checks, "LEASE_WAIT_SECONDS", 1.0)
    with pool_double(status(total_active_runs=128)) as url:
        saw = ask("sandboxes.probe", pooled(context_of, url))
    assert saw.status == "fail" and "SandboxError" in saw.found


@pytest.mark.catalogue("S1")
def test_hash_routing_overflows_a_server_as_in_the_postmortem(context_of: MakeContext, ask: Ask) -> None:
    """64 tasks on 4 servers of 16 places overflow somewhere in 99.8% of draws; 70 on 8 in 4% (harness facts)."""
    names = [f"task-{number}" for number in range(1376)]
    assert draw_bins(names, groups=64, servers=4, slots=16, seed=0)[0] > 0.97
    assert draw_bins(names, groups=70, servers=8, slots=16, seed=0)[0] < 0.15
    saw = ask("sandboxes.balance", pooled(context_of, "http://pool-1:18081", "http://pool-2:18081"))
    assert saw.wanted == "at most 16 of 16 tasks on each of 2 servers" and saw.status == "pass"
    tight = pooled(context_of, "http://pool-1:1", "http://pool-2:1", sets=("sandbox.max_tasks=8",))
    assert ask("sandboxes.balance", tight).status == "fail"


@pytest.mark.catalogue("S4")
def test_a_tired_daemon_behind_a_pool(context_of: MakeContext, ask: Ask) -> None:
    made = "t1_pool_created_total 48000\n"
    with pool_double(status(up_seconds=22 * 3600.0), ours=True, metrics=made) as url:
        saw = ask("sandboxes.daemon", pooled(context_of, url))
    assert saw.status == "warn" and "up 22.0 h, 48,000 sandboxes made" in saw.found
    with pool_double(status(up_seconds=3600.0), ours=True, metrics="t1_pool_created_total 10\n") as url:
        assert ask("sandboxes.daemon", pooled(context_of, url)).status == "pass"
    with pool_double(status()) as url:
        assert ask("sandboxes.daemon", pooled(context_of, url)).status == "skipped"


@pytest.mark.catalogue("S4")
def test_the_container_daemon_of_this_machine(context_of: MakeContext, ask: Ask) -> None:
    said = {
        "problem": "",
        "networks": 20,
        "network_places": 31,
        "containers": 9,
        "age_seconds": 22 * 3600.0,
        "missing_images": [],
    }
    context = context_of(STARVED, fleet=one(CONTAINERS, said))
    assert ask("sandboxes.container_daemon", context).status == "warn"
    saw = ask("sandboxes.networks", context)
    assert saw.status == "fail" and saw.found == "11 networks free of 31"
    assert ask("sandboxes.networks", context_of(GRPO, fleet=one(CONTAINERS, said))).status == "skipped"
    assert network_places([{"Base": "172.30.0.0/16", "Size": 24}]) == 256 and network_places(None) == 31
    away = {"problem": "no container daemon answers"}
    assert ask("sandboxes.networks", context_of(STARVED, fleet=nodes(CONTAINERS, away))).status == "skipped"


def test_images_that_tasks_name_are_looked_for(context_of: MakeContext, ask: Ask, tmp_path: Path) -> None:
    task = tmp_path / "pool/one"
    shutil.copytree(min((experiments_dir() / "quickstart/tasks").iterdir()), task)
    toml = task / "task.toml"
    toml.write_text(toml.read_text().replace("[environment]", '[environment]\ndocker_image = "example/task:1"'))
    asked = Probe(CONTAINERS, {"images": ["example/task:1"]})
    missing = Later(lambda: {"node": {asked.key: Answer({"problem": "", "missing_images": ["example/task:1"]})}})
    saw = ask(
        "sandboxes.images", context_of(STARVED, f"tasks.path={tmp_path / 'pool'}", "tasks.layout=harbor", fleet=missing)
    )
    assert saw.status == "warn" and saw.found == "1 missing, first example/task:1 on node"
    assert "docker pull example/task:1" in saw.fix


@pytest.mark.catalogue("S11")
def test_a_pool_on_the_training_host(context_of: MakeContext, ask: Ask) -> None:
    saw = ask("sandboxes.shared_daemon", context_of(STARVED))
    assert saw.status == "warn" and "http://127.0.0.1:18081 on a training host" in saw.found
    assert "--data-root" in saw.fix
    apart = pooled(context_of, "http://192.0.2.7:18081")
    assert ask("sandboxes.shared_daemon", apart).status == "pass"
    said = pooled(context_of, "http://192.0.2.7:18081", sets=("sandbox.on_training_host=true",))
    assert ask("sandboxes.shared_daemon", said).status == "warn"


@pytest.mark.catalogue("S5")
def test_128_heavy_tasks_do_not_fit_beside_the_trainers(context_of: MakeContext, ask: Ask) -> None:
    """32 GiB of memory and 205 GiB of temporary disk, as the postmortem counts them."""
    sets = ("sandbox.max_tasks=16", "sandbox.max_runs_per_task=8")
    short, roomy = ({"available": gib * 2**30, "scratch": 500 * 2**30} for gib in (16, 64))
    saw = ask("sandboxes.host_room", context_of(STARVED, *sets, fleet=nodes(ROOM, short, roomy)))
    assert saw.status == "fail" and saw.wanted == "32.0 and 204.8 GiB for 128 sandboxes"
    assert saw.found.startswith("node-0: 16.0 GiB of memory and 500.0 GiB of temporary disk free")
    assert ask("sandboxes.host_room", context_of(STARVED, *sets, fleet=one(ROOM, roomy))).status == "pass"
    assert ask("sandboxes.host_room", context_of(GRPO)).status == "skipped"


@pytest.mark.catalogue("S6")
def test_a_ramp_that_eats_the_rollout(context_of: MakeContext, ask: Ask) -> None:
    """560 trials at 6 a second take 93 s."""
    saw = ask("sandboxes.creation_rate", context_of("t1-strategy15k"))
    assert saw.status == "pass" and saw.found.startswith("560 sandboxes at 6/s take 93 s")
    slow = context_of("t1-strategy15k", "sandbox.creation_per_second=0.5")
    assert ask("sandboxes.creation_rate", slow).status == "warn"


@pytest.mark.catalogue("S3")
def test_a_lease_that_ends_before_its_trial(context_of: MakeContext, ask: Ask) -> None:
    for seconds, expected in ((100, "fail"), (3600, "pass")):
        context = context_of(GRPO, f"sandbox.lease_seconds={seconds}", "rollout.trial_wall_seconds=600")
        assert ask("sandboxes.lifetime", context).status == expected
    assert ask("sandboxes.lifetime", context_of("quickstart")).status == "skipped"


LEAKING = """
import asyncio, sys
from pathlib import Path
from t1cli.spec.sandbox import LocalSandbox
from t1cli.terminal.sandbox.local import LocalProvider

async def main():
    provider = LocalProvider(LocalSandbox(backend="process"), Path(sys.argv[1]))
    await provider.create("leaked", owner="dead-run")
    print("made", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.catalogue("S3")
def test_a_really_leaked_sandbox_is_found_and_swept(context_of: MakeContext, ask: Ask) -> None:
    context = context_of("quickstart")
    assert ask("sandboxes.leftovers", context).status == "pass"
    place = context.runs_dir / "quickstart/attempt_1/sandboxes"
    leaking = subprocess.Popen([sys.executable, "-c", LEAKING, str(place)], stdout=subprocess.PIPE)
    assert leaking.stdout is not None and leaking.stdout.readline() == b"made\n"
    assert ask("sandboxes.leftovers", context).status == "pass", "its owner lives"
    leaking.send_signal(signal.SIGKILL)
    leaking.wait()
    saw = ask("sandboxes.leftovers", context)
    assert saw.status == "warn" and saw.fix == f"t1 pool sweep {place}"
    assert sweep_directory(place) == ("leaked",)
    assert ask("sandboxes.leftovers", context).status == "pass"


def test_a_pool_without_authentication(context_of: MakeContext, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t1cli.preflight.checks.pool._is_loopback", lambda _: False)
    with pool_double(status()) as url:
        assert ask("security.open_pool", pooled(context_of, url)).status == "warn"
    monkeypatch.setenv("T1_POOL_TOKEN", "0123456789abcdef")
    with pool_double(status(), token="0123456789abcdef") as url:
        context = pooled(context_of, url)
        assert ask("security.open_pool", context).status == "pass"
        assert ask("sandboxes.servers", context).status == "pass"
    assert "0123456789abcdef" not in str(ask("security.open_pool", context)), os.environ["T1_POOL_TOKEN"]


def test_a_local_sandbox_from_end_to_end(context_of: MakeContext, ask: Ask, tmp_path: Path) -> None:
    saw = ask("sandboxes.probe", context_of("quickstart"))
    assert saw.status == "pass" and saw.found.startswith("created in ")


HARBOR_DOUBLE = Path(__file__).parents[2] / "contract/harbor_double"
HARBOR = "{kind: harbor, environment: 't1cli.terminal.sandbox.harbor.bubblewrap:BubblewrapEnvironment', capacity: 32"


@pytest.mark.skipif(bool(bubblewrap_problem()), reason=f"no bubblewrap here: {bubblewrap_problem()}")
def test_a_sandbox_of_harbor_from_end_to_end(
    context_of: MakeContext, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HARBOR_DOUBLE))
    saw = ask("sandboxes.probe", context_of("quickstart", f"sandbox={HARBOR}, python: {sys.executable}}}"))
    assert saw.status == "pass" and saw.found.startswith("created in "), saw
    saw = ask("sandboxes.probe", context_of("quickstart", f"sandbox={HARBOR}, python: /bin/false}}"))
    assert saw.status == "fail" and "Harbor's worker ended with status 1" in saw.found, saw
