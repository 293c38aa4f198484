"""The critic's start: values of the supervised actor, learned from its own trials on freshly generated siblings.

`python -m t1cli.embedded.warm_critic --output DIRECTORY` samples the shipped actor on tasks that share no name with the
pool or the unseen test set, in real sandboxes, and regresses each token's value on its trial's reward (with gamma and
lambda 1 that is the return at every token). Training stops where trials it did not learn from are explained best.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import torch

from t1cli.embedded.first_weights import first_weights
from t1cli.embedded.measure import open_bench
from t1cli.embedded.model import TinyMoE, TinyMoEConfig
from t1cli.embedded.siblings import held_out_names, sibling_stream, write_tasks
from t1cli.embedded.value_regression import Settings, fit_values
from t1cli.embedded.weights import read_weights, save_weights
from t1cli.errors import T1Error
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import load_experiment
from t1cli.terminal.trajectory.row import TrainingRow

CRITIC_FILE = "critic.safetensors"
CRITIC_MANIFEST = "critic.json"
_STREAM_SEEDS = 7_000_003


def warm_critic(output: Path, spec: ExperimentSpec, pool: Path, *, seed: int) -> dict[str, object]:
    """Sample, fit, and write `critic.safetensors` (bf16) and `critic.json`; returns the latter."""
    started, settings = time.monotonic(), Settings()
    actor = first_weights(spec)
    if actor is None:
        raise T1Error("a critic is fitted to an actor that acts, not to random weights", where="engine.warm_start")
    config = TinyMoEConfig.from_architecture(spec.model.architecture)
    rows = sample_rows(spec, actor, pool, settings.trials + settings.held_out, seed=seed)
    model = TinyMoE(config, head="value", seed=seed + 1)
    model.load_trunk(read_weights(actor, config))
    fit = fit_values(model, rows[settings.held_out :], rows[: settings.held_out], settings, seed=seed, say=_say)
    output.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.to(torch.bfloat16) for name, tensor in fit.model.state_dict().items()}
    save_weights(output / CRITIC_FILE, weights, config)
    manifest: dict[str, object] = {
        "command": f"python -m t1cli.embedded.warm_critic --output DIRECTORY --seed {seed}",
        "seed": seed,
        "reward": spec.reward.kind,
        "trials": settings.trials,
        "epochs": fit.epoch,
        "held_out_explained_variance": round(fit.explained_variance, 3),
        "seconds": round(time.monotonic() - started, 1),
    }
    (output / CRITIC_MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return manifest


def sample_rows(spec: ExperimentSpec, actor: Path, pool: Path, trials: int, *, seed: int) -> tuple[TrainingRow, ...]:
    """One trial each on that many fresh siblings."""
    fresh = sibling_stream(seed + _STREAM_SEEDS, held_out_names(pool).all)
    with tempfile.TemporaryDirectory(prefix="t1-siblings-") as scratch, open_bench(spec, actor) as bench:
        tasks = write_tasks(tuple(itertools.islice(fresh, trials)), Path(scratch))
        return bench.rows(actor, tasks, repeats=1, seed=seed)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Fit a critic to the experiment's first actor; progress on stderr, what was made on stdout."""
    parser = argparse.ArgumentParser(description="Fit a critic to the supervised actor.")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--experiment", default="quickstart")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    loaded = load_experiment(Path(options.experiment))
    try:
        made = warm_critic(options.output, loaded.spec, loaded.resolve_path(loaded.spec.tasks.path), seed=options.seed)
    except T1Error as error:
        sys.exit(f"error: {error.message}")
    print(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
