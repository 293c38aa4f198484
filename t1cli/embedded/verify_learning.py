"""Proof that training learns: the same tasks sampled before and after, for several seeds and a control.

`python -m t1cli.embedded.verify_learning` launches the quickstart once per seed and once with an actor learning rate
of 0, samples every task of the pool 8 times with the weights before and after (other sampling seeds), and the unseen
siblings as well. Exit 0 when every trained seed gains at least 0.08 in mean check rate with a paired bootstrap interval
above 0 and the control's interval contains 0.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from t1cli.embedded.bootstrap import Gain, paired_gain
from t1cli.embedded.checkpoint import newest_common
from t1cli.embedded.first_weights import first_weights
from t1cli.embedded.measure import Bench, open_bench
from t1cli.embedded.siblings import pool_names, unseen_siblings, write_tasks
from t1cli.embedded.weights import WEIGHTS_FILE
from t1cli.errors import T1Error
from t1cli.run.attempts import latest_attempt
from t1cli.spec.load import LoadedSpec, load_experiment
from t1cli.terminal.tasks.load import load_pool
from t1cli.terminal.tasks.task import Task

WANTED_GAIN = 0.08
POOL_REPEATS = 8
UNSEEN_REPEATS = 4
BEFORE_SEED, AFTER_SEED = 1_000_000, 2_000_000
Rates = dict[str, list[float]]


@dataclass(frozen=True)
class Arm:
    """One training run."""

    name: str
    seed: int
    control: bool

    def overrides(self) -> tuple[str, ...]:
        """What differs from the experiment file."""
        frozen = ("algorithm.actor_learning_rate=0",) if self.control else ()
        return (f"name={self.name}", f"seed={self.seed}", *frozen)


@dataclass(frozen=True)
class ArmResult:
    """What one arm showed."""

    arm: Arm
    pool: Gain
    unseen: Gain
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether it shows what is claimed of it."""
        return self.pool.contains_zero if self.arm.control else self.pool.gain >= WANTED_GAIN and self.pool.above_zero

    def to_json(self) -> dict[str, object]:
        """For a script."""
        return {**asdict(self.arm), "pool": asdict(self.pool), "unseen": asdict(self.unseen), "holds": self.holds}


@dataclass(frozen=True)
class Sets:
    """What is sampled."""

    pool: Sequence[Task]
    unseen: Sequence[Task]


def verify(experiment: str, arms: Sequence[Arm], overrides: Sequence[str], runs: Path) -> list[ArmResult]:
    """Sample, train and sample again, arm after arm; raises T1Error when a run or a measurement fails."""
    loaded = load_experiment(Path(experiment), list(overrides))
    shipped = first_weights(loaded.spec)
    if shipped is None:
        raise T1Error("learning is measured from a supervised start, not from random weights")
    results = []
    with tempfile.TemporaryDirectory(prefix="t1-unseen-") as scratch:
        sets = _sets(loaded, Path(scratch))
        # The bench is closed while an arm trains, so that nothing but the campaign runs then.
        before = _measure(loaded, shipped, sets, BEFORE_SEED)
        _say(f"before training: pool {_mean(before[0]):.3f}, unseen {_mean(before[1]):.3f}")
        for arm in arms:
            started = time.monotonic()
            trained = train(experiment, arm, overrides, runs)
            seconds = time.monotonic() - started
            after = _measure(loaded, trained, sets, AFTER_SEED + arm.seed)
            results.append(ArmResult(arm, paired_gain(before[0], after[0]), paired_gain(before[1], after[1]), seconds))
            _say(_line(results[-1]))
    return results


def train(experiment: str, arm: Arm, overrides: Sequence[str], runs: Path) -> Path:
    """Launch one campaign as a user would; the last actor checkpoint's weights."""
    argv = [sys.executable, "-c", "from t1cli.cli.app import main; main()", "launch", experiment, "--yes"]
    argv += ["--runs-dir", str(runs)]
    for override in (*overrides, *arm.overrides()):
        argv += ["--set", override]
    done = subprocess.run(argv, stdout=sys.stderr, check=False)
    if done.returncode != 0:
        raise T1Error(f"t1 launch ended with status {done.returncode}", where=arm.name)
    attempt = latest_attempt(runs / arm.name)
    iteration = None if attempt is None else newest_common([attempt.actor_checkpoints])
    if attempt is None or iteration is None:
        raise T1Error("the campaign left no checkpoint", where=str(runs / arm.name))
    return attempt.actor_checkpoints / f"iter_{iteration:07d}" / WEIGHTS_FILE


def _sets(loaded: LoadedSpec, scratch: Path) -> Sets:
    pool = loaded.resolve_path(loaded.spec.tasks.path)
    return Sets(load_pool(pool), write_tasks(unseen_siblings(pool_names(pool)), scratch))


def _measure(loaded: LoadedSpec, weights: Path, sets: Sets, seed: int) -> tuple[Rates, Rates]:
    shipped = first_weights(loaded.spec)
    assert shipped is not None
    with open_bench(loaded.spec, shipped) as bench:
        return _rates(bench, weights, sets.pool, POOL_REPEATS, seed), _rates(
            bench, weights, sets.unseen, UNSEEN_REPEATS, seed
        )


def _rates(bench: Bench, weights: Path, tasks: Sequence[Task], repeats: int, seed: int) -> Rates:
    started = time.monotonic()
    rates = bench.check_rates(weights, tasks, repeats=repeats, seed=seed)
    _say(f"sampled {len(tasks)} tasks × {repeats} in {time.monotonic() - started:.0f} s")
    return rates


def _mean(rates: Rates) -> float:
    return sum(sum(values) / len(values) for values in rates.values()) / len(rates)


def _line(result: ArmResult) -> str:
    def gain(of: Gain) -> str:
        return f"{of.before:.3f} → {of.after:.3f}, gain {of.gain:+.3f} [{of.low:+.3f}, {of.high:+.3f}]"

    kind = "control" if result.arm.control else f"seed {result.arm.seed}"
    verdict = "holds" if result.holds else "FAILS"
    return f"{kind}: pool {gain(result.pool)}; unseen {gain(result.unseen)}; {result.seconds:.0f} s; {verdict}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Progress on stderr, one JSON object on stdout."""
    parser = argparse.ArgumentParser(description="Prove that the quickstart learns.")
    parser.add_argument("--experiment", default="quickstart")
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--no-control", action="store_true")
    parser.add_argument("--runs-dir", type=Path, help="keep the runs here; a temporary directory otherwise")
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    arms = [Arm(f"verify-seed-{seed}", seed, control=False) for seed in options.seeds]
    arms += [] if options.no_control else [Arm("verify-control", 0, control=True)]
    with tempfile.TemporaryDirectory(prefix="t1-verify-") as scratch:
        try:
            results = verify(options.experiment, arms, options.overrides, options.runs_dir or Path(scratch))
        except T1Error as error:
            sys.exit(f"error: {error.message}")
    print(json.dumps({"format_version": 1, "arms": [result.to_json() for result in results]}, indent=1))
    sys.exit(0 if all(result.holds for result in results) else 1)


if __name__ == "__main__":
    main()
