"""ExperimentSpec: the table of contents of an experiment file."""

from __future__ import annotations

from typing import Any

from pydantic import Field, NonNegativeInt

from t1cli.spec.algorithm import Algorithm
from t1cli.spec.block import Block
from t1cli.spec.checkpoint import CheckpointSpec
from t1cli.spec.engine import Engine
from t1cli.spec.evaluation import EvaluationSpec
from t1cli.spec.hardware import HardwareSpec
from t1cli.spec.model import ModelSpec
from t1cli.spec.reward import Reward
from t1cli.spec.rollout import RolloutSpec
from t1cli.spec.sandbox import Sandbox
from t1cli.spec.tasks import TasksSpec
from t1cli.spec.topology import TopologySpec
from t1cli.spec.tracking import TrackingSpec
from t1cli.spec.trainer import TrainerSpec
from t1cli.spec.watch import WatchSpec


class ExperimentSpec(Block):
    """One campaign, fully resolved: presets, the file and `--set` merged."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    """The campaign's name; also the name of its run directory."""
    seed: NonNegativeInt = 0
    """Seed of task order, sampling and initialisation."""
    model: ModelSpec
    """Which network is trained."""
    hardware: HardwareSpec
    """What the machines have."""
    topology: TopologySpec
    """How GPUs and the model are cut."""
    trainer: TrainerSpec
    """How a training step runs."""
    algorithm: Algorithm
    """How rewards become gradients."""
    rollout: RolloutSpec
    """How a batch of trials is generated."""
    tasks: TasksSpec
    """What the agent is trained on."""
    evaluation: EvaluationSpec | None = None
    """How progress is measured; null is off."""
    reward: Reward
    """What a finished trial is worth."""
    sandbox: Sandbox
    """Where a trial's commands run."""
    checkpoint: CheckpointSpec = CheckpointSpec()
    """What is saved and kept."""
    tracking: TrackingSpec = TrackingSpec()
    """Where metrics go besides the run directory."""
    watch: WatchSpec = WatchSpec()
    """Which rules look after the run."""
    engine: Engine
    """What runs the campaign."""
    slime_args: dict[str, Any] = Field(default_factory=dict)
    """Arguments of slime that have no field here, by flag name; those that t1 owns are refused."""
