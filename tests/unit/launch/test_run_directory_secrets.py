"""Whatever secret is planted in environment, spec or command line, no file of the run directory holds it."""

from __future__ import annotations

import string
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t1cli.launch.fake_backend import FakeBackend
from t1cli.launch.launch import launch
from t1cli.launch.proposal import LaunchOptions, Stages
from t1cli.preflight.report import CheckResult, PreflightReport
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
