"""The adversarial simulator as a fixture: test modules of this suite cannot import each other."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def simulation() -> ModuleType:
    """`simulation.py` beside this file."""
    name = "t1_trajectory_simulation"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("simulation.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
