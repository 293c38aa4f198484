"""Every backend keeps the same promises: it describes without acting, and what it starts has an owner."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from t1cli.launch.backend import Backend, Job, backend_for
from t1cli.launch.embedded_backend import EmbeddedBackend
from t1cli.launch.fake_backend import FakeBackend
from t1cli.launch.slime.backend import SlimeBackend
from t1cli.run.directory import RunDirectory
from t1cli.run.process_identity import ProcessIdentity
from t1cli.run.run_files import grounded_spec
from t1cli.spec.load import load_experiment

PAIRS = [
    (EmbeddedBackend(), "quickstart"),
    (FakeBackend(), "quickstart"),
    (SlimeBackend(), "t1-strategy15k"),
    (SlimeBackend(), "qwen3-8b-grpo"),
]


@pytest.mark.parametrize(("backend", "experiment"), PAIRS, ids=lambda value: getattr(value, "engine", value))
def test_a_backend_describes_without_acting(backend: Backend, experiment: str, tmp_path: Path) -> None:
    loaded, run = load_experiment(Path(experiment)), RunDirectory(tmp_path / "x" / "attempt_1")
    invocation = backend.invocation(loaded, run)
    assert invocation.argv and all(isinstance(word, str) for word in invocation.argv)
    assert any(str(run.path) in word for word in invocation.argv)
    json.dumps([invocation.env, invocation.role_file], allow_nan=False)
    assert (invocation.role_file is not None) == (backend.engine == "slime" and loaded.spec.algorithm.kind == "ppo")
    assert isinstance(backend.refusals(loaded), tuple)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("backend", [EmbeddedBackend(), FakeBackend()], ids=lambda backend: backend.engine)
def test_a_foreground_start_belongs_to_this_process_and_has_not_run_yet(backend: Backend, tmp_path: Path) -> None:
    loaded, run = load_experiment(Path("quickstart")), RunDirectory(tmp_path / "quickstart" / "attempt_1")
    started = backend.start(Job(run, grounded_spec(loaded), False, False, print))
    me = ProcessIdentity.of()
    assert started.owner == me and started.job_id == f"pid:{me.pid}" and started.foreground is not None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("experiment", "engine"), [("quickstart", "embedded"), ("t1-strategy15k", "slime")])
def test_the_spec_chooses_the_backend(experiment: str, engine: str) -> None:
    assert backend_for(load_experiment(Path(experiment)).spec).engine == engine
