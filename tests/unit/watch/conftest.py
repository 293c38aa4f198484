"""The rebuilt 45-hour run, and the public histories."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from t1cli.watch.sources.source import Row

DATA = Path(__file__).parents[2] / "data" / "watch"


@pytest.fixture(scope="session")
def dead_run_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The postmortem's run as CSV (see tests/data/watch/seed_run.py)."""
    spec = importlib.util.spec_from_file_location("seed_run", DATA / "seed_run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = tmp_path_factory.mktemp("dead_run") / "dead_run.csv"
    module.write(path)
    return path


@pytest.fixture(scope="session")
def dead_run(dead_run_csv: Path) -> tuple[Row, ...]:
    """Its rows."""
    from t1cli.watch.sources.csv_file import CsvFile

    return CsvFile(dead_run_csv).poll()
