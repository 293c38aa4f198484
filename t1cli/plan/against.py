"""What `--diff` names: a plan.json, a run directory, or another experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from t1cli.plan.build import build_plan
from t1cli.plan.diff import read_plan
from t1cli.spec.load import LoadedSpec, load_experiment

PLAN_FILE, SPEC_FILE = "plan.json", "spec.resolved.yaml"


def read_other(name: str) -> tuple[dict[str, Any], LoadedSpec | None]:
    """The other plan's JSON, and its spec where one is found. BadInput when `name` is none of the three."""
    path = Path(name)
    if path.is_dir() and (path / PLAN_FILE).is_file():
        spec = path / SPEC_FILE
        return read_plan(path), load_experiment(spec) if spec.is_file() else None
    if path.suffix == ".json":
        return read_plan(path), None
    loaded = load_experiment(path)
    return build_plan(loaded, source=name).to_json(), loaded
