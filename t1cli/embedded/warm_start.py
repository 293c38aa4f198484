"""The supervised start: a policy that solves about half of the checks, so that PPO has something to improve.

`python -m t1cli.embedded.warm_start --output DIRECTORY` learns from freshly generated siblings of the quickstart's
tasks, first of one step, then of all difficulties, and stops when the check rate sampled at temperature 1 in real
sandboxes first passes the goal. It never sees a name of the pool or of the unseen test set.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from t1cli import __version__
from t1cli.embedded.measure import mean_check_rate, open_bench
from t1cli.embedded.model import TinyMoE, TinyMoEConfig, parameter_count
from t1cli.embedded.siblings import held_out_names, sibling_stream, write_tasks
from t1cli.embedded.supervised import Settings, StepReport, train_supervised
from t1cli.embedded.tokenizer import tokenizer
from t1cli.embedded.weights import WEIGHTS_FILE, save_weights
from t1cli.errors import T1Error
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import load_experiment
from t1cli.terminal.tasks.generator import GeneratedTask

GOAL = 0.45
ACCEPTED = (0.30, 0.65)
MEASURED_TASKS = 60
EASY_UNTIL = 0.9
"""Command probability on one-step tasks at which the other difficulties join."""
MEASURE_FROM = 0.2
"""Command probability from which on the check rate, which is higher, is measured."""
MEASURE_EVERY = 4
MAX_STEPS = 600
_STREAM_SEEDS = 1_000_003


@dataclass
class Lesson:
    """The stream of tasks: one step each until that is learned, then every difficulty."""

    seed: int
    exclude: frozenset[str]
    easy: bool = True

    def tasks(self) -> Iterator[GeneratedTask]:
        """Fresh tasks without end; `easy` may change while it runs."""
        single = sibling_stream(self.seed, self.exclude, difficulty=1)
        every = sibling_stream(self.seed + _STREAM_SEEDS, self.exclude)
        while True:
            yield next(single if self.easy else every)


def warm_start(output: Path, spec: ExperimentSpec, pool: Path, *, seed: int) -> dict[str, object]:
    """Train, measure, and write `model.safetensors` and `manifest.json`; returns the manifest.

    Raises T1Error when the goal is not reached, or the final rate lies outside 0.30 to 0.65.
    """
    started = time.monotonic()
    config = TinyMoEConfig.from_architecture(spec.model.architecture)
    model, names, settings = TinyMoE(config, seed=seed), held_out_names(pool), Settings()
    output.mkdir(parents=True, exist_ok=True)
    weights = output / WEIGHTS_FILE
    save_bf16(weights, model)
    with tempfile.TemporaryDirectory(prefix="t1-siblings-") as scratch, open_bench(spec, weights) as bench:
        fresh = sibling_stream(seed + 2 * _STREAM_SEEDS, names.all)
        measured = write_tasks(tuple(next(fresh) for _ in range(MEASURED_TASKS)), Path(scratch))

        def measure(step: int) -> float:
            save_bf16(weights, model)
            return mean_check_rate(bench.check_rates(weights, measured, repeats=1, seed=seed + step))

        lesson = Lesson(seed, names.all)
        report, rate = _learn(train_supervised(model, lesson.tasks(), settings), lesson, measure)
    if not ACCEPTED[0] <= rate <= ACCEPTED[1]:
        raise T1Error(f"check rate {rate:.3f}, expected {ACCEPTED[0]} to {ACCEPTED[1]}", hint="try another --seed")
    manifest = _manifest(model, settings, weights, seed=seed) | {
        "check_rate": round(rate, 4),
        "measured_tasks": MEASURED_TASKS,
        "steps": report.step,
        "seconds": round(time.monotonic() - started, 1),
    }
    (output / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return manifest


def save_bf16(path: Path, model: TinyMoE) -> None:
    """Weights rounded to bf16: half the size, and exactly what the server samples with."""
    weights = {name: tensor.to(torch.bfloat16) for name, tensor in model.state_dict().items()}
    save_weights(path, weights, model.config)


def _learn(reports: Iterator[StepReport], lesson: Lesson, measure: Callable[[int], float]) -> tuple[StepReport, float]:
    """Step until a measured rate passes the goal; measuring begins when single commands are good enough for it."""
    last_measured = 0
    for report in reports:
        if report.step % 10 == 0:
            _say(f"step {report.step}: loss {report.loss:.3f}, command probability {report.command_probability:.2f}")
        if report.step >= MAX_STEPS:
            break
        if lesson.easy:
            lesson.easy = report.command_probability < EASY_UNTIL
        elif report.command_probability > MEASURE_FROM and report.step - last_measured >= MEASURE_EVERY:
            last_measured, rate = report.step, measure(report.step)
            _say(f"step {report.step}: check rate {rate:.3f} sampled on {MEASURED_TASKS} fresh tasks")
            if rate > GOAL:
                return report, rate
    raise T1Error(f"the check rate did not pass {GOAL} in {MAX_STEPS} steps", hint="try another --seed")


def _manifest(model: TinyMoE, settings: Settings, weights: Path, *, seed: int) -> dict[str, object]:
    return {
        "command": f"python -m t1cli.embedded.warm_start --output DIRECTORY --seed {seed}",
        "seed": seed,
        "t1": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "tokenizer": tokenizer().fingerprint,
        "config": asdict(model.config),
        "parameters": parameter_count(model),
        "settings": asdict(settings),
        "sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
    }


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Build first weights; progress on stderr, the manifest on stdout."""
    parser = argparse.ArgumentParser(description="Supervised start of the tiny policy.")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--experiment", default="quickstart")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    loaded = load_experiment(Path(options.experiment))
    pool = loaded.resolve_path(loaded.spec.tasks.path)
    try:
        manifest = warm_start(options.output, loaded.spec, pool, seed=options.seed)
    except T1Error as error:
        sys.exit(f"error: {error.message}")
    print(json.dumps(manifest, indent=1))


if __name__ == "__main__":
    main()
