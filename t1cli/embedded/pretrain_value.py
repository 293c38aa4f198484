"""Fitting a critic to a run's saved rollouts, so that the next campaign's critic does not start cold (C1).

Rollouts are kept apart by time: the last ones are held back for the figures and never seen, those before them choose
the epoch, the rest are learned from. The rows are the run's own, sandboxes and engines are not needed.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from t1cli.embedded.explained_variance import ValueFit
from t1cli.embedded.first_weights import first_weights
from t1cli.embedded.model import TinyMoE, TinyMoEConfig
from t1cli.embedded.value_regression import Settings, fit_on, fit_values
from t1cli.embedded.weights import read_weights, save_weights
from t1cli.errors import BadInput
from t1cli.records import write_json
from t1cli.run.directory import RunDirectory
from t1cli.run.metric_names import EXPLAINED_VARIANCE
from t1cli.run.metrics_reader import read_metrics, series
from t1cli.spec.algorithm import PPO
from t1cli.spec.experiment import ExperimentSpec
from t1cli.terminal.trajectory.row import TrainingRow
from t1cli.terminal.trajectory.store import load_rows

FORMAT_VERSION = 1
CRITIC_FILE = "critic.safetensors"
MANIFEST = "pretrained.json"
_CRITIC_SEED_OFFSET = 1
_PATIENCE = 3


@dataclass(frozen=True)
class Asked:
    """What the command line says."""

    output: Path
    held_back: int | None = None
    """Rollouts; None: a fifth."""
    epochs: int = 12
    batch: int = 60
    threads: int = 1


@dataclass(frozen=True)
class Split:
    """Rollout ids and rows, in order of time."""

    fitted: dict[int, tuple[TrainingRow, ...]]
    choosing: dict[int, tuple[TrainingRow, ...]]
    held_back: dict[int, tuple[TrainingRow, ...]]


@dataclass(frozen=True)
class Pretrained:
    """What was fitted, and what it explains of rollouts that nothing was learned or chosen from."""

    run: str
    reward: str
    fitted_rollouts: tuple[int, ...]
    choosing_rollouts: tuple[int, ...]
    held_back_rollouts: tuple[int, ...]
    trials: int
    held_back_trials: int
    epoch: int
    """The chosen one; 0 means that nothing was better than the cold start."""
    cold: ValueFit
    """Of a critic that starts from the actor's trunk with a fresh head."""
    pretrained: ValueFit
    own_step_0: float | None
    """Explained variance that the run's own critic began with."""
    seconds: float
    output: str

    @property
    def better(self) -> bool:
        """Whether it explains more than the cold critic."""
        after, before = self.pretrained.explained_variance, self.cold.explained_variance
        return after is not None and (before is None or after > before)

    def to_json(self) -> dict[str, object]:
        """One JSON object with `format_version` first; figures that are not defined are null."""
        figures = {name: _without_nan(value) for name, value in asdict(self).items()}
        return {"format_version": FORMAT_VERSION, **figures, "better": self.better}


def pretrain_value(run: RunDirectory, spec: ExperimentSpec, asked: Asked, say: Callable[[str], None]) -> Pretrained:
    """Fit, and write `critic.safetensors` and `pretrained.json` (in this order, each at once) into the output.

    Raises BadInput without a critic, with fewer than three rollouts, or where the output holds a critic already.
    """
    import torch

    if not isinstance(spec.algorithm, PPO):
        raise BadInput(
            f"{spec.algorithm.kind} has no critic", where="algorithm.kind", hint="a run of algorithm.kind ppo"
        )
    if (asked.output / CRITIC_FILE).exists():
        raise BadInput("there is a critic already", where=str(asked.output / CRITIC_FILE), hint="another --output")
    torch.set_num_threads(asked.threads)
    started, split = time.monotonic(), split_rollouts(run, asked.held_back)
    # Where nothing can be written is said before the fit, not after.
    asked.output.mkdir(parents=True, exist_ok=True)
    learned, choosing, held_back = (_joined(part) for part in (split.fitted, split.choosing, split.held_back))
    say(f"{len(learned)} trials to learn from, {len(choosing)} choose the epoch, {len(held_back)} are held back")
    gamma, model = spec.algorithm.gamma, cold_critic(spec)
    cold = fit_on(model, held_back, gamma=gamma)
    rate = spec.algorithm.critic.learning_rate
    settings = Settings(epochs=asked.epochs, batch=asked.batch, learning_rate=rate, gamma=gamma, patience=_PATIENCE)
    fit = fit_values(model, learned, choosing, settings, seed=spec.seed, say=say)
    found = Pretrained(
        run=f"{run.name}/attempt_{run.attempt}",
        reward=spec.reward.kind,
        fitted_rollouts=tuple(split.fitted),
        choosing_rollouts=tuple(split.choosing),
        held_back_rollouts=tuple(split.held_back),
        trials=len(learned),
        held_back_trials=len(held_back),
        epoch=fit.epoch,
        cold=cold,
        pretrained=fit_on(fit.model, held_back, gamma=gamma),
        own_step_0=series(read_metrics(run.metrics_jsonl), EXPLAINED_VARIANCE).get(0),
        seconds=round(time.monotonic() - started, 1),
        output=str(asked.output / CRITIC_FILE),
    )
    _write(asked.output, fit.model, found)
    return found


def split_rollouts(run: RunDirectory, held_back: int | None) -> Split:
    """Saved rollouts by time: to learn from, to choose by, held back. Raises BadInput where one of them stays empty."""
    paths = sorted(run.rollouts.glob("rollout_*.npz"))
    last = max(1, len(paths) // 5) if held_back is None else held_back
    choosing = max(1, (len(paths) - last) // 6)
    if last < 1 or len(paths) - last - choosing < 1:
        raise BadInput(
            f"{len(paths)} saved rollouts, {last} held back and {choosing} to choose by leave none to learn from",
            where=str(run.rollouts),
            hint="a longer run, or a smaller --held-back (at least 1)",
        )
    read = {int(path.stem.rpartition("_")[2]): load_rows(path) for path in paths}
    numbers = list(read)
    parts = numbers[: -last - choosing], numbers[-last - choosing : -last], numbers[-last:]
    return Split(*({number: read[number] for number in part} for part in parts))


def cold_critic(spec: ExperimentSpec) -> TinyMoE:
    """The critic that the spec's campaign would begin with were none named: the actor's trunk and a fresh head."""
    config = TinyMoEConfig.from_architecture(spec.model.architecture)
    weights = first_weights(spec)
    actor = TinyMoE(config, seed=spec.seed).state_dict() if weights is None else read_weights(weights, config)
    model = TinyMoE(config, head="value", seed=spec.seed + _CRITIC_SEED_OFFSET)
    model.load_trunk(actor)
    return model


def _joined(rollouts: dict[int, tuple[TrainingRow, ...]]) -> Sequence[TrainingRow]:
    return [row for rows in rollouts.values() for row in rows]


def _write(output: Path, model: TinyMoE, found: Pretrained) -> None:
    output.mkdir(parents=True, exist_ok=True)
    aside = output / f".{CRITIC_FILE}.{os.getpid()}.tmp"
    save_weights(aside, model.state_dict(), model.config)
    aside.replace(output / CRITIC_FILE)
    write_json(output / MANIFEST, found.to_json())


def _without_nan(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nan(item) for name, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
