"""The words of other tools point at keys that exist."""

from __future__ import annotations

from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.fields import all_keys
from t1cli.spec.renamed import FOREIGN, RENAMED


def test_every_successor_exists() -> None:
    known = {key for key, _ in all_keys(ExperimentSpec)} | {"presets"}
    assert {*FOREIGN.values(), *RENAMED.values()} <= known
