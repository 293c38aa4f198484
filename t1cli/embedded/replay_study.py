"""What routing replay is worth: the same sampled tokens scored by the trainer with and without it.

`python -m t1cli.embedded.replay_study` trains the quickstart for a few rollouts, so that the trainer's fp32 weights are
no longer exactly what the bf16 sampler holds, samples every task of the pool in real sandboxes, and scores the sampled
tokens twice, all else equal. The same tokens are then read again by the sampler under three other numerics:

- `bf16`: the sampler as the quickstart runs it. Its gap is routing and bf16 arithmetic in every other layer.
- `bf16_routers`: its routers alone in bf16, everything else fp32 as in the trainer. The gap is routing's.
- `perturbed`: fp32, with noise on the scores that select experts. The gap is flips and nothing else.
- `fp32`: fp32 throughout: what is left when only the kernels differ, the kernel noise.

`--rows FILE --weights FILE` measures a rollout that a run has saved, with the checkpoint of the same number, and
samples nothing.

Exit 0 when no token drifted in a loss region, `bf16` flips at least 0.5 % of routing rows, replay removes at least 20 %
of the gap of `bf16_routers`, and leaves of the `perturbed` one no more than three times the kernel noise.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from t1cli.embedded.decoder import DecoderSettings
from t1cli.embedded.first_weights import first_weights
from t1cli.embedded.forced_decoding import forced_rows
from t1cli.embedded.measure import open_bench
from t1cli.embedded.model import TinyMoE, TinyMoEConfig
from t1cli.embedded.replay_findings import ReplayFindings, findings
from t1cli.embedded.verify_learning import Arm, train
from t1cli.embedded.weights import read_weights
from t1cli.errors import T1Error
from t1cli.spec.load import LoadedSpec, load_experiment
from t1cli.terminal.tasks.load import load_pool
from t1cli.terminal.trajectory.row import TrainingRow
from t1cli.terminal.trajectory.store import load_rows

WANTED_FLIPS: Final = 0.005
WANTED_REDUCTION: Final = 0.20
KERNEL_NOISE_FACTOR: Final = 3.0


@dataclass(frozen=True)
class SavedRollout:
    """Rows that a run saved, and the weights that sampled them."""

    rows: Path
    weights: Path


@dataclass(frozen=True)
class Options:
    """How much is sampled, and how the router is perturbed."""

    rollouts: int
    repeats: int
    router_noise: float
    saved: SavedRollout | None = None


@dataclass(frozen=True)
class Study:
    """Every condition, on the same weights and the same tokens."""

    bf16: ReplayFindings
    bf16_routers: ReplayFindings
    perturbed: ReplayFindings
    fp32: ReplayFindings

    @property
    def claims(self) -> dict[str, bool]:
        """What is claimed of replay, and whether it was seen."""
        noise = KERNEL_NOISE_FACTOR * self.fp32.gap_with_replay
        return {
            "no token drifted in a loss region": self.bf16.drifted_in_loss == 0,
            "bf16 flips 0.5 % of rows": self.bf16.flipped_rows >= WANTED_FLIPS,
            "replay removes 20 % of the gap of bf16 routers": self.bf16_routers.reduction >= WANTED_REDUCTION,
            "replay leaves kernel noise of flips": self.perturbed.gap_with_replay <= noise,
        }

    @property
    def holds(self) -> bool:
        """Whether all of it was seen."""
        return all(self.claims.values())


def study(
    model: TinyMoE, weights: Mapping[str, Tensor], rows: Sequence[TrainingRow], *, temperature: float, noise: float
) -> Study:
    """Score sampled rows as they are and as the other samplers would have reported them."""
    full = torch.float32
    samplers = (
        DecoderSettings(dtype=full, router_dtype=torch.bfloat16),
        DecoderSettings(dtype=full, router_noise=noise),
        DecoderSettings(dtype=full),
    )
    others = (forced_rows(rows, model.config, weights, sampler, temperature=temperature) for sampler in samplers)
    return Study(*(findings(model, scored, temperature=temperature) for scored in (rows, *others)))


def run(experiment: str, overrides: Sequence[str], options: Options) -> Study:
    """Rows, as asked for, and their scores. Raises T1Error when a run or a measurement fails."""
    loaded = load_experiment(Path(experiment), list(overrides))
    model = TinyMoE(TinyMoEConfig.from_architecture(loaded.spec.model.architecture))
    if options.saved is None:
        rows, weights = _trained_and_sampled(loaded, experiment, overrides, options)
    else:
        rows, weights = load_rows(options.saved.rows), read_weights(options.saved.weights, model.config)
    if any(row.routed_experts is None for row in rows) or not rows:
        raise T1Error("rows without routing: there is nothing to replay", where=str(options.saved))
    model.load_state_dict(weights)
    return study(model, weights, rows, temperature=loaded.spec.rollout.temperature, noise=options.router_noise)


def _trained_and_sampled(
    loaded: LoadedSpec, experiment: str, overrides: Sequence[str], options: Options
) -> tuple[tuple[TrainingRow, ...], dict[str, Tensor]]:
    """Train a little, then sample the pool."""
    trained = shipped = first_weights(loaded.spec)
    if shipped is None or trained is None:
        raise T1Error("the study needs a policy that acts, not random weights")
    with tempfile.TemporaryDirectory(prefix="t1-replay-") as scratch:
        if options.rollouts:
            arm = Arm("replay-study", loaded.spec.seed, control=False)
            trained = train(experiment, arm, (*overrides, f"rollout.num_rollouts={options.rollouts}"), Path(scratch))
        rows = _sampled(loaded, shipped, trained, options.repeats)
        return rows, read_weights(trained, TinyMoEConfig.from_architecture(loaded.spec.model.architecture))


def _sampled(loaded: LoadedSpec, shipped: Path, trained: Path, repeats: int) -> tuple[TrainingRow, ...]:
    tasks = load_pool(loaded.resolve_path(loaded.spec.tasks.path))
    with open_bench(loaded.spec, shipped) as bench:
        return bench.rows(trained, tasks, repeats=repeats, seed=loaded.spec.seed)


def main(arguments: list[str] | None = None) -> None:
    """Progress on stderr, one JSON object on stdout."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    try:
        found = run(
            options.experiment,
            options.overrides,
            Options(options.rollouts, options.repeats, options.router_noise, _saved(options)),
        )
    except T1Error as error:
        sys.exit(f"error: {error.message}")
    answer = {
        "format_version": 2,
        "router_noise": options.router_noise,
        **{name: getattr(found, name).to_json() for name in ("bf16", "bf16_routers", "perturbed", "fp32")},
        "claims": found.claims,
        "holds": found.holds,
    }
    print(json.dumps(answer, indent=1))
    sys.exit(0 if found.holds else 1)


def _saved(options: argparse.Namespace) -> SavedRollout | None:
    if (options.rows is None) != (options.weights is None):
        raise T1Error("--rows and --weights belong together: the rollout, and the weights that sampled it")
    return None if options.rows is None else SavedRollout(options.rows, options.weights)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure what routing replay does to the log-prob gap.")
    parser.add_argument("--experiment", default="quickstart")
    parser.add_argument(
        "--rollouts", type=int, default=4, help="rollouts trained on before; 0 measures the first weights"
    )
    parser.add_argument("--repeats", type=int, default=8, help="trials per task of the pool")
    parser.add_argument("--router-noise", type=float, default=0.02, help="of the perturbed sampler")
    parser.add_argument("--rows", type=Path, help="a saved rollout, such as RUN/rollouts/rollout_000008.npz")
    parser.add_argument("--weights", type=Path, help="what sampled it, such as RUN/checkpoints/actor/iter_0000008")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="KEY=VALUE")
    return parser


if __name__ == "__main__":
    main()
