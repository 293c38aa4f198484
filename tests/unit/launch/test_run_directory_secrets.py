"""Whatever secret is planted in environment, spec or command line, no file of the run directory holds it."""

from __future__ import annotations

import os
import string
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t1cli.launch.backend import Job
from t1cli.launch.embedded_backend import EmbeddedBackend
from t1cli.launch.fake_backend import FakeBackend
from t1cli.launch.launch import launch
from t1cli.launch.proposal import LaunchOptions, Stages
from t1cli.launch.slime.job_log import JobLog
from t1cli.preflight.report import CheckResult, PreflightReport
from t1cli.run.directory import RunDirectory
from t1cli.run.metrics_writer import MetricsWriter
from t1cli.run.run_files import grounded_spec
from t1cli.spec.load import LoadedSpec

# Mixed-case so that a secret is never a word that the files contain anyway.
SECRETS = st.text(string.ascii_letters + string.digits + "+_.~!@#%^*", min_size=9, max_size=40).map(lambda s: "Zq7" + s)


def files_of(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(env=SECRETS, spec=SECRETS, argument=SECRETS)
def test_planted_secrets_reach_no_file(
    env: str,
    spec: str,
    argument: str,
    load: Callable[..., LoadedSpec],
    options: LaunchOptions,
    listener,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    root = tmp_path_factory.mktemp("runs")
    leak = f"could not reach https://user:{spec}@host with {env}"
    loaded = load()
    planted = loaded.spec.model_copy(update={"slime_args": {"wandb_key": spec, "note": f"uses {env}"}})
    loaded = replace(loaded, spec=planted)

    def campaign(rollout: int) -> None:
        if rollout == 3:
            raise RuntimeError(f"refused: {leak} {argument}")

    check = CheckResult("tracking.wandb", (), "warn", leak, "", f"export WANDB_API_KEY={env}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_API_KEY", env)
        patch.setenv("NCCL_SECRET_TOKEN", argument)
        patch.setenv("NCCL_NOTE", f"with {env} inside")
        patch.setattr(sys, "argv", ["t1", "launch", "x", "--set", f"slime_args.wandb_key={spec}", "--token", argument])
        from t1cli.plan.build import build_plan

        stages = Stages(
            build_plan,
            lambda *_: PreflightReport("quickstart", "d", (check,)),
            lambda spec: FakeBackend(before_rollout=campaign),
        )
        with pytest.raises(RuntimeError):
            launch(loaded, replace(options, runs_root=root), listener, stages)
    files = files_of(root)
    assert any(name.endswith("campaign.log") for name in files)
    for name, content in files.items():
        for secret in (env, spec, argument):
            assert secret.encode() not in content, f"{name} holds a planted secret"


KEY_BODY = ["MIIEpAIBAAKCAQEAx7Zq7", "c2VjcmV0IGJvZHkgb2YgYSBrZXkZq7", "AbCdEfGhIjKlMnOpQrZq7=="]
KEY = "\n".join(["-----BEGIN OPENSSH PRIVATE KEY-----", *KEY_BODY, "-----END OPENSSH PRIVATE KEY-----"])


def held_by(directory: Path, *secrets: str) -> list[str]:
    """Files that hold one of these, as a person with grep would find them."""
    return [name for name, content in files_of(directory).items() if any(one.encode() in content for one in secrets)]


@pytest.mark.parametrize("piece", [1, 7, 10_000])
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_private_key_in_a_jobs_output_reaches_no_file(tmp_path: Path, piece: int, goes_on: bool) -> None:
    """Text comes in pieces of any size, and another follower may go on in the middle of the key."""
    run = RunDirectory(tmp_path / "attempt_1")
    text = "\n".join(["before", KEY, "step 3: {'train/loss': 0.5}", ""])

    def open_log() -> JobLog:
        return JobLog(run, "job", MetricsWriter(run.metrics_jsonl), on_save=lambda save: None)

    log = open_log()
    for start in range(0, len(text), piece):
        log.write(text[start : start + piece])
        if goes_on and start > 60:
            position = log.position
            again = open_log()
            again.write(text[position : start + piece])
            log, goes_on = again, False
    log.close()
    assert held_by(tmp_path, *KEY_BODY) == []
    said = (run.logs / "job.log").read_text()
    assert said.startswith("before\n") and "train/loss" in said and run.metrics_jsonl.exists()


PRINTING = (
    "import logging, os, sys, warnings\n"
    "from t1cli.launch.campaign_process import detached_main\n"
    "def body(job):\n"
    "    print(os.environ['SERVICE_TOKEN'], 'and', os.environ['PLANTED_TEXT'])\n"
    "    print('half a line', end='')\n"
    "    print(os.environ['SERVICE_TOKEN'][:5], end='', file=sys.stderr)\n"
    "    print(os.environ['SERVICE_TOKEN'][5:], file=sys.stderr)\n"
    "    logging.warning(os.environ['SERVICE_TOKEN'])\n"
    "    warnings.warn(os.environ['SERVICE_TOKEN'])\n"
    "    raise RuntimeError('refused: ' + os.environ['SERVICE_TOKEN'])\n"
    "sys.exit(detached_main(sys.argv[1:], body))\n"
)


def test_what_a_detached_campaign_prints_is_redacted(
    load: Callable[..., LoadedSpec],
    options: LaunchOptions,
    listener,
    stages,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = "Zq7-planted-service-token"
    run = RunDirectory(Path(launch(load(), options, listener, stages()).run_dir))
    monkeypatch.setenv("SERVICE_TOKEN", secret)
    monkeypatch.setenv("PLANTED_TEXT", KEY)
    monkeypatch.setattr(EmbeddedBackend, "_argv", staticmethod(lambda run, resume: command(run)))
    started = EmbeddedBackend().start(Job(run, grounded_spec(load()), False, True, print))
    assert os.waitstatus_to_exitcode(os.waitpid(started.owner.pid, 0)[1]) == 101
    said = (run.logs / "process.log").read_text()
    assert "half a line" in said and "bug in t1: RuntimeError: refused: <redacted>" in said
    assert held_by(run.path, secret, *KEY_BODY) == []


def command(run: RunDirectory) -> tuple[str, ...]:
    return (sys.executable, "-c", PRINTING, str(run.path))
