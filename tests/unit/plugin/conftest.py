"""The double of slime on the path, as slime's checkout is inside a job."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from t1cli.plugin.settings import Settings, settings_of
from t1cli.spec.load import load_experiment
from tests.contract.slime_session import session_settings

DOUBLE = Path(__file__).parents[2] / "contract/slime_double"


@pytest.fixture(autouse=True)
def slime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOUBLE))
    yield
    for name in [name for name in sys.modules if name == "slime" or name.startswith("slime.")]:
        del sys.modules[name]


@pytest.fixture
def namespace(tmp_path: Path) -> Callable[..., Namespace]:
    """slime's namespace with our settings in it."""

    def make(*overrides: str, experiment: str = "quickstart", **values: object) -> Namespace:
        spec = load_experiment(Path(experiment), list(overrides)).spec
        ours = session_settings(spec, tmp_path / "runs" / spec.name / "attempt_1")
        if spec.algorithm.kind != "ppo":
            ours["critic_dir"] = None
        return Namespace(t1=ours, **values)

    return make


@pytest.fixture
def settings(namespace: Callable[..., Namespace]) -> Settings:
    return settings_of(namespace())
