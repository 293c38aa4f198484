"""tasks: a sample is really run where the campaign's trials will run: here, or on a pool server over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from t1cli.preflight.check import Context
from t1cli.preflight.checks import ALL_CHECKS
from t1cli.preflight.checks.task_runs import judge_sample, judge_verdicts
from t1cli.preflight.report import CheckResult
from t1cli.preflight.runner import run_checks
from t1cli.preflight.task_sample import is_clear
from tests.unit.preflight.conftest import Ask, MakeContext, with_tasks
from tests.unit.preflight.pool_double import pool_double, status

ON_A_POOL = '{kind: pool, urls: ["%s"], max_tasks: 4, max_runs_per_task: 8}'

CHAIN = ("software.bubblewrap", "sandboxes.probe", "sandboxes.servers", "tasks.pool", "tasks.ctrf_coverage")
"""A check with all that it needs, as a whole preflight asks them."""


@contextmanager
def served(place: Path) -> Iterator[str]:
    """The URL of a real pool server."""
    argv = [sys.executable, "-c", "from t1cli.cli.app import main; main()", "pool", "serve", "--port", "0"]
    argv += ["--drain-seconds", "0", "--directory", str(place)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            yield f"http://{ready['host']}:{ready['port']}"
        finally:
            process.terminate()


def asked(context: Context, *names: str) -> dict[str, CheckResult]:
    checks = [check for check in ALL_CHECKS if check.id in names]
    return {one.id: one for one in run_checks(checks, context).checks}


def sampled(*states: str, problems: int = 0) -> list[dict[str, Any]]:
    found = [{"task": f"t{n}", "state": state, "tests": 3, "problems": []} for n, state in enumerate(states)]
    for one in found[:problems]:
        one["problems"] = ["no-op: doing nothing solves it"]
    return found


@pytest.mark.catalogue("R1")
def test_coverage_is_judged_with_its_interval() -> None:
    """56 of 60 sampled tasks of Strategy-15k wrote a report: 93%."""
    saw = judge_sample(sampled(*["ok"] * 56, *["missing"] * 3, "empty"), 0.9)
    assert saw.status == "pass"
    assert (
        saw.found
        == "56 of 60 sampled tasks report per test (86% to 97% at 95% each side); the others: 3 missing, 1 empty"
    )
    saw = judge_sample(sampled("ok", "none", "none"), 0.9)
    assert saw.status == "fail" and "first without a report: t1" in saw.fix
    saw = judge_sample(sampled(*["ok"] * 30, problems=2), 0.9)
    assert saw.status == "warn" and "2 broken, first t0: no-op: doing nothing solves it" in saw.found


def test_verdicts_of_a_binary_reward_are_judged_without_reports() -> None:
    assert judge_verdicts(sampled(*["missing"] * 25)).status == "pass"
    saw = judge_verdicts(sampled(*["missing"] * 25, problems=1))
    assert saw.status == "warn" and saw.found.startswith("24 of 25 sampled tasks are graded right (")
    saw = judge_verdicts(sampled(*["missing"] * 6, problems=3))
    assert saw.status == "fail" and "first t0: no-op: doing nothing solves it" in saw.fix


@pytest.mark.catalogue("R1")
def test_sampling_stops_when_the_interval_clears_the_minimum() -> None:
    """25 reports out of 25 clear 0.9; none out of 1 is already below it, and 56 of 60 leave it open."""
    assert not is_clear(24, 24, 0.9) and is_clear(25, 25, 0.9)
    assert is_clear(0, 1, 0.9) or is_clear(0, 2, 0.9)
    assert not is_clear(56, 60, 0.9)
    assert not is_clear(0, 0, 0.9)


@pytest.mark.catalogue("R1")
def test_a_pool_without_reports_is_really_run_and_refused(context_of: MakeContext, ask: Ask, pool: Path) -> None:
    for task in pool.iterdir():
        script = task / "tests/test.sh"
        script.write_text("mkdir -p ${T1_ROOT:-}/logs/verifier\necho 1 > ${T1_ROOT:-}/logs/verifier/reward.txt\n")
    saw = ask("tasks.ctrf_coverage", with_tasks(context_of, pool))
    assert saw.status == "fail" and "0 of" in saw.found and "missing" in saw.found


def test_a_binary_reward_is_sampled_too(context_of: MakeContext, ask: Ask, pool: Path) -> None:
    binary = with_tasks(context_of, pool, "reward={kind: binary}")
    assert ask("tasks.ctrf_coverage", binary).status == "skipped"
    saw = ask("tasks.verdicts", binary)
    assert saw.status == "pass" and saw.found.startswith("3 of 3 sampled tasks are graded right")
    free = min(pool.iterdir()) / "tests/test_outputs.py"
    free.write_text("def test_a(): pass\n")
    saw = ask("tasks.verdicts", with_tasks(context_of, pool, "reward={kind: binary}", "seed=1"))
    assert saw.status == "fail" and "no-op: doing nothing solves it" in saw.fix


@pytest.mark.catalogue("R1", "S2")
def test_a_campaign_on_a_pool_is_probed_and_sampled_there(context_of: MakeContext, pool: Path, tmp_path: Path) -> None:
    with served(tmp_path / "server") as url:
        results = asked(with_tasks(context_of, pool, f"sandbox={ON_A_POOL % url}"), *CHAIN)
    assert results["sandboxes.probe"].status == "pass", results["sandboxes.probe"].found
    # Asked before the probe's lease and the sample's are taken.
    assert "0 active, 0 closing" in results["sandboxes.servers"].found
    saw = results["tasks.ctrf_coverage"]
    assert saw.status == "pass" and saw.found.startswith("3 of 3 sampled tasks report per test"), saw.found
    journal = [json.loads(line) for line in (tmp_path / "server/journal.jsonl").read_text().splitlines()]
    assert {task.name for task in pool.iterdir()} <= {one.get("task") for one in journal}


def test_a_pool_that_nobody_serves_is_not_waited_for(context_of: MakeContext, pool: Path) -> None:
    context = with_tasks(context_of, pool, f"sandbox={ON_A_POOL % 'http://127.0.0.1:9'}")
    results = asked(context, "sandboxes.probe", "tasks.ctrf_coverage", "tasks.pool")
    assert results["sandboxes.probe"].status == "fail" and "no answer: ConnectError" in results["sandboxes.probe"].found
    assert results["tasks.ctrf_coverage"].found == "needs sandboxes.probe, which failed"


@pytest.mark.catalogue("S2")
def test_a_full_pool_is_no_task_without_a_report(
    context_of: MakeContext, pool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("t1cli.preflight.checks.task_runs.LEASE_WAIT_SECONDS", 1.0)
    with pool_double(status(total_active_runs=128)) as url:
        results = asked(with_tasks(context_of, pool, f"sandbox={ON_A_POOL % url}"), "tasks.ctrf_coverage")
    saw = results["tasks.ctrf_coverage"]
    assert saw.status == "crashed" and "oracle: no sandbox" in saw.found


@pytest.mark.catalogue("S3")
def test_a_sample_that_is_killed_gives_its_leases_back(pool: Path, tmp_path: Path) -> None:
    for task in pool.iterdir():
        (task / "solution/solve.sh").write_text("#!/bin/sh\nsleep 300\n")
    with served(tmp_path / "server") as url:
        sandbox = {"kind": "pool", "urls": [url], "max_tasks": 4, "max_runs_per_task": 8}
        request = {"sandbox": sandbox, "lease_wait_seconds": 60.0, "minimum": 0.9, "reports": True}
        request["tasks"] = [str(task) for task in pool.iterdir()]
        ask = "import json, sys\nfrom t1cli.preflight.guarded import ask_guarded\n"
        ask += "ask_guarded('t1cli.preflight.task_sample', json.loads(sys.argv[1]), seconds=600)"
        with subprocess.Popen([sys.executable, "-c", ask, json.dumps(request)]) as asker:
            wait_until(lambda: leases_of(url) == 3, "three leases")
            asker.kill()
        wait_until(lambda: leases_of(url) == 0, "no lease")


def leases_of(url: str) -> int:
    """Leases that the server holds, those that are closing included."""
    found = httpx.get(f"{url}/status", timeout=60).json()["pool"]
    return int(found["total_active_runs"]) + int(found["pending_closes"])


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 240
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.1)
