"""The trainer and the inference server as the campaign sees them: two processes behind typed calls. Free of torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from t1cli.cluster.local import LocalCluster, RemoteObject
from t1cli.embedded.first_weights import first_critic_weights
from t1cli.embedded.metrics import Metrics
from t1cli.errors import T1Error
from t1cli.run.save_directories import SaveDirectories
from t1cli.spec.experiment import ExperimentSpec
from t1cli.terminal.trajectory.row import TrainingRow

if TYPE_CHECKING:
    from t1cli.embedded.checkpoint import Progress
    from t1cli.embedded.trainer import SavedRole


@dataclass(frozen=True)
class Processes:
    """Both processes of an embedded campaign."""

    _trainer: RemoteObject
    _server: RemoteObject

    @classmethod
    def spawn(
        cls, cluster: LocalCluster, spec: ExperimentSpec, directories: SaveDirectories, first_weights: Path | None
    ) -> Processes:
        """Start both; they load side by side, and a failure shows at the first call."""
        trainer = cluster.spawn(
            "t1cli.embedded.trainer:Trainer",
            spec,
            directories,
            name="trainer",
            actor_weights=first_weights,
            critic_weights=first_critic_weights(spec),
            threads=trainer_threads(spec),
        )
        # Two calls at once: one waits all the time for the server's end, the other publishes.
        server = cluster.spawn(
            "t1cli.embedded.inference_process:InferenceProcess", spec, name="inference server", at_once=2
        )
        return cls(trainer, server)

    async def load(self) -> Progress | None:
        """Let the trainer go on from its newest checkpoint; None when there is none."""
        return cast("Progress | None", await self._trainer.call("load"))

    async def serve(self) -> str:
        """Start the server on the trainer's weights; returns its URL."""
        version = await self._trainer.call("version")
        return str(await self._server.call("start", self._trainer.begin("publish"), version))

    async def server_end(self) -> None:
        """Return never while the server answers; raises T1Error when it or its process has died."""
        await self._server.call("wait_for_end")

    async def train(self, rollout_id: int, rows: Sequence[TrainingRow]) -> Metrics:
        """One step on one batch."""
        return cast(Metrics, await self._trainer.call("train", rollout_id, tuple(rows)))

    async def publish(self) -> int:
        """The trainer's weights to the server. Raises T1Error when the server samples another version afterwards."""
        version = await self._trainer.call("version")
        found = await self._server.call("publish", self._trainer.begin("publish"), version)
        if found != version:
            raise T1Error(f"the server samples with weights {found} after {version} were published")
        return int(version)

    async def save(self, score: float | None) -> tuple[SavedRole, ...]:
        """Write a checkpoint of every role."""
        return cast("tuple[SavedRole, ...]", await self._trainer.call("save", score))


def trainer_threads(spec: ExperimentSpec) -> int:
    """As the spec says; else two where the server idles while the trainer works, one where both work at once."""
    import os

    if spec.trainer.cpu_threads:
        return spec.trainer.cpu_threads
    return min(2, os.cpu_count() or 1) if spec.rollout.pipeline == "sync" else 1
