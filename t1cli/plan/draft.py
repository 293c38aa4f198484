"""Everything a plan holds except its findings: what the finding rules read."""

from __future__ import annotations

from dataclasses import dataclass

from t1cli.plan.memory import MemoryAnswer
from t1cli.plan.plan import DiskPlan, Finding, HostPlan, PoolPlan, Schedule, Severity
from t1cli.plan.topology import Topology
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import LoadedSpec
from t1cli.spec.locate import shown_path


@dataclass(frozen=True)
class Draft:
    """A spec and what was computed from it."""

    loaded: LoadedSpec
    topology: Topology
    memory: MemoryAnswer
    host: HostPlan
    disk: DiskPlan
    schedule: Schedule
    pool: PoolPlan

    @property
    def spec(self) -> ExperimentSpec:
        return self.loaded.spec

    @property
    def on_slime(self) -> bool:
        """Whether GPUs, Megatron and SGLang are involved at all."""
        return self.spec.engine.kind == "slime"

    def finding(self, id: str, severity: Severity, *, key: str, message: str, fix: str) -> Finding:
        """A finding located at the dotted key that causes it."""
        where = self.loaded.where(key)
        where = shown_path(self.loaded.path) if where == str(self.loaded.path) else where
        return Finding(id=id, severity=severity, message=message, where=where, fix=fix)
