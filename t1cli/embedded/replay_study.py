"""What routing replay is worth: the same sampled tokens scored by the trainer with and without it.

`python -m t1cli.embedded.replay_study` trains the quickstart for a few rollouts, so that the trainer's fp32 weights are
no longer exactly what the bf16 sampler holds, then samples every task of the pool in real sandboxes and scores the
sampled tokens twice, all else equal. It does so once as the quickstart samples, and once with a little noise on the
sampler's router scores: bf16 alone flips few sets of a network this small, so that its gap is mostly arithmetic that no
replay removes. Exit 0 when no token drifted in a loss region, bf16 alone flips at least 0.5 % of routing rows, and
under the noise replay lowers the log-prob gap by at least 20 %.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from t1cli.embedded.batches import MicroBatch, micro_batches
from t1cli.embedded.first_weights import first_weights
from t1cli.embedded.measure import open_bench
from t1cli.embedded.model import TinyMoE, TinyMoEConfig
from t1cli.embedded.ppo import behaviour_log_probs
from t1cli.embedded.routing_study import free_routing_metrics
from t1cli.embedded.verify_learning import Arm, train
from t1cli.embedded.weights import read_weights
from t1cli.errors import T1Error
from t1cli.spec.load import load_experiment
from t1cli.terminal.tasks.load import load_pool
from t1cli.terminal.trajectory.row import TrainingRow

WANTED_FLIPS = 0.005
WANTED_REDUCTION = 0.20


@dataclass(frozen=True)
class Options:
    """How much is sampled, and how."""

    rollouts: int
    repeats: int
    router_noise: float


@dataclass(frozen=True)
class ReplayFindings:
    """What one set of rows shows. Gaps are mean absolute differences of log-probs over trained tokens."""

    rows: int
    trained_tokens: int
    drifted_in_loss: int
    flipped_rows: float
    """Share of positions where the trainer would choose another expert set than the sampler in at least one layer."""
    flipped_sets: float
    """Share of (position, layer) cells."""
    gap_without_replay: float
    gap_with_replay: float

    @property
    def reduction(self) -> float:
        """Share of the gap that replay removes."""
        return 1.0 - self.gap_with_replay / self.gap_without_replay

    def to_json(self) -> dict[str, object]:
        """For a script."""
        return {**asdict(self), "reduction": self.reduction}


@dataclass(frozen=True)
class Study:
    """Both conditions, on the same weights."""

    bf16: ReplayFindings
    noisy: ReplayFindings
    router_noise: float

    @property
    def holds(self) -> bool:
        """Whether it shows what is claimed of replay."""
        clean = self.bf16.drifted_in_loss == self.noisy.drifted_in_loss == 0
        return clean and self.bf16.flipped_rows >= WANTED_FLIPS and self.noisy.reduction >= WANTED_REDUCTION


def study(model: TinyMoE, rows: Sequence[TrainingRow], *, temperature: float) -> ReplayFindings:
    """Score the rows' sampled tokens with and without their recorded routing."""
    batches = micro_batches(rows, max_tokens=8192, replay=True)
    free = free_routing_metrics(model, batches, temperature)
    replayed = behaviour_log_probs(model, batches, temperature)
    trained_tokens = sum(int(row.loss_mask.sum()) for row in rows)
    return ReplayFindings(
        rows=len(rows),
        trained_tokens=trained_tokens,
        drifted_in_loss=sum(row.audit.drifted_in_loss for row in rows),
        flipped_rows=free["train/routing_flipped_rows"],
        flipped_sets=free["train/routing_flipped_sets"],
        gap_without_replay=free["train/train_rollout_logprob_abs_diff_free_routing"],
        gap_with_replay=_gap_sum(batches, replayed) / trained_tokens,
    )


def _gap_sum(batches: Sequence[MicroBatch], log_probs: Sequence[Tensor]) -> float:
    gaps = (
        ((mine - batch.rollout_log_probs).abs() * batch.loss_mask).sum(dtype=torch.float64)
        for batch, mine in zip(batches, log_probs, strict=True)
    )
    return float(sum(gaps))


def run(experiment: str, overrides: Sequence[str], options: Options) -> Study:
    """Train a little, sample the pool, score. Raises T1Error when a run or a measurement fails."""
    loaded = load_experiment(Path(experiment), list(overrides))
    shipped = first_weights(loaded.spec)
    if shipped is None:
        raise T1Error("the study needs a policy that acts, not random weights")
    with tempfile.TemporaryDirectory(prefix="t1-replay-") as scratch:
        trained = shipped
        if options.rollouts:
            arm = Arm("replay-study", loaded.spec.seed, control=False)
            trained = train(experiment, arm, (*overrides, f"rollout.num_rollouts={options.rollouts}"), Path(scratch))
        config = TinyMoEConfig.from_architecture(loaded.spec.model.architecture)
        model = TinyMoE(config)
        model.load_state_dict(read_weights(trained, config))
        tasks = load_pool(loaded.resolve_path(loaded.spec.tasks.path))
        noisy = load_experiment(Path(experiment), [*overrides, f"engine.router_noise={options.router_noise}"])
        found = []
        for spec in (loaded.spec, noisy.spec):
            with open_bench(spec, shipped) as bench:
                rows = bench.rows(trained, tasks, repeats=options.repeats, seed=spec.seed)
            found.append(study(model, rows, temperature=spec.rollout.temperature))
    return Study(found[0], found[1], options.router_noise)


def main(arguments: list[str] | None = None) -> None:
    """Progress on stderr, one JSON object on stdout."""
    parser = argparse.ArgumentParser(description="Measure what routing replay does to the log-prob gap.")
    parser.add_argument("--experiment", default="quickstart")
    parser.add_argument(
        "--rollouts", type=int, default=4, help="rollouts trained on before; 0 measures the first weights"
    )
    parser.add_argument("--repeats", type=int, default=8, help="trials per task of the pool")
    parser.add_argument("--router-noise", type=float, default=0.02, help="of the second condition")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    try:
        found = run(
            options.experiment,
            options.overrides,
            Options(options.rollouts, options.repeats, options.router_noise),
        )
    except T1Error as error:
        sys.exit(f"error: {error.message}")
    answer = {
        "format_version": 1,
        "bf16": found.bf16.to_json(),
        "noisy": {"router_noise": found.router_noise, **found.noisy.to_json()},
        "holds": found.holds,
    }
    print(json.dumps(answer, indent=1))
    sys.exit(0 if found.holds else 1)


if __name__ == "__main__":
    main()
