"""What a SOURCE argument means: a run (by name or path), a file or directory of metrics, or `wandb:e/p/id`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from t1cli.errors import BadInput
from t1cli.records import number_in, read_json
from t1cli.run.attempts import find_run
from t1cli.run.directory import RunDirectory
from t1cli.run.lock import runs_now
from t1cli.run.run_files import saved_spec
from t1cli.run.state import RunState, Standing, standing
from t1cli.watch.counting import OF_FILE, OF_RUN, Counting
from t1cli.watch.sources.beside_logs import BesideLogs
from t1cli.watch.sources.csv_file import CsvFile
from t1cli.watch.sources.metrics_file import MetricsFile
from t1cli.watch.sources.source import Source
from t1cli.watch.sources.tensorboard_files import TensorboardFiles
from t1cli.watch.sources.text_log import TextLog
from t1cli.watch.sources.trainer_state import TrainerState
from t1cli.watch.sources.wandb_offline import WandbOffline
from t1cli.watch.sources.wandb_online import WandbOnline


@dataclass(frozen=True)
class Opened:
    """A source, and what is known of the campaign behind it."""

    source: Source
    name: str
    run: RunDirectory | None = None
    packs: tuple[str, ...] = ()
    window_scale: float = 1.0
    protect: int = 0
    variables: Mapping[str, float] = field(default_factory=dict)
    rules: tuple[Mapping[str, Any], ...] = ()
    """Rules of the campaign itself, beside its packs."""
    reorder_steps: int = 1
    """How many steps late a row may arrive and still belong to its frame."""
    total_rollouts: int | None = None
    allow_stop: bool = False
    """Whether the spec lets stop rules stop the run."""
    gpus: float = 0.0
    """GPUs of the run, as its plan says."""
    one_machine: bool = False
    """Whether the campaign runs on the embedded engine."""

    @property
    def counting(self) -> Counting:
        """How people count its steps."""
        return OF_FILE if self.run is None else OF_RUN

    def run_end(self) -> Standing | None:
        """How the run behind the source stands; None for a mere file."""
        return None if self.run is None else standing(self.run)


def open_source(argument: str, runs_dir: Path, *, follow: bool = False) -> Opened:
    """Open a source; `follow` reads a mere file on as it grows. Raises BadInput when there is no such run or file."""
    if argument.startswith("wandb:"):
        return Opened(WandbOnline(argument.removeprefix("wandb:")), argument)
    path = Path(argument)
    source = _of_file(path, follow) if path.is_file() else _of_directory(path, follow) if path.is_dir() else None
    return Opened(source, path.stem) if source is not None else _open_run(find_run(argument, runs_dir))


def _of_file(path: Path, follow: bool) -> Source:
    def done() -> bool:
        return not follow

    if "tfevents" in path.name:
        return TensorboardFiles(path, is_finished=done)
    match path.suffix:
        case ".csv":
            return CsvFile(path)
        case ".jsonl":
            return MetricsFile(path, is_finished=done)
        case ".json":
            return TrainerState(path)
        case ".wandb":
            return WandbOffline(path, is_finished=done)
        case ".log" | ".txt" | ".out":
            return TextLog(path, is_finished=done)
    raise BadInput(
        f"cannot read {path.name}: expected a run, or a .csv, .jsonl, .json, .log, .txt, .out, .wandb or tfevents file",
        where=str(path),
    )


def _of_directory(path: Path, follow: bool) -> Source | None:
    """A directory of W&B or TensorBoard files; a run directory of ours is a run, whatever trackers it holds."""
    if any((path / name).exists() for name in ("record.json", "attempt_1", "latest", "metrics.jsonl")):
        return None
    if next(path.rglob("*.wandb"), None) is not None:
        return WandbOffline(path, is_finished=lambda: not follow)
    if next(path.rglob("*tfevents*"), None) is not None:
        return TensorboardFiles(path, is_finished=lambda: not follow)
    return None


def _open_run(run: RunDirectory) -> Opened:
    spec = _resolved_spec(run)
    rollout, watch = _block(spec, "rollout"), _block(spec, "watch")
    batch, samples = _count(rollout, "batch_size", 1), _count(rollout, "samples_per_prompt", 1)
    fallback = _block(_block(spec, "reward"), "fallback")
    return Opened(
        BesideLogs(
            MetricsFile(
                run.metrics_jsonl,
                steps_per_rollout=_count(_block(spec, "algorithm"), "steps_per_rollout", 1),
                is_finished=lambda: _has_ended(run),
            ),
            run.logs,
        ),
        name=f"{run.name}/attempt_{run.attempt}",
        run=run,
        packs=_texts(watch.get("packs")),
        window_scale=number_in(watch.get("window_scale"), 1.0),
        protect=int(number_in(watch.get("protect_first_rollouts"), 30)),
        variables={
            "rollout_batch_size": batch,
            "n_samples_per_prompt": samples,
            "samples_per_rollout": batch * samples,
            "fallback_max_share": number_in(fallback.get("max_share"), 0.1),
        },
        rules=tuple(rule for rule in _list(watch.get("rules")) if isinstance(rule, dict)),
        reorder_steps=1 if rollout.get("pipeline", "sync") == "sync" else 2,
        allow_stop=watch.get("allow_stop") is True,
        gpus=_gpus(run),
        one_machine=_block(spec, "engine").get("kind") == "embedded",
        total_rollouts=_count(rollout, "num_rollouts", 1) if "num_rollouts" in rollout else None,
    )


def _gpus(run: RunDirectory) -> float:
    topology = (read_json(run.plan_json) or {}).get("topology")
    return number_in(topology.get("total_gpus"), 0.0) if isinstance(topology, dict) else 0.0


def _has_ended(run: RunDirectory) -> bool:
    """Cheap while it runs here; a run on another machine has ended when its events say so."""
    return not runs_now(run) and standing(run).state not in (RunState.RUNNING, RunState.UNKNOWN)


def _resolved_spec(run: RunDirectory) -> dict[str, Any]:
    """The run's spec as plain data; watching must work even where t1's own spec has moved on since."""
    return saved_spec(run) or read_json(run.plan_json) or {}


def _count(block: Mapping[str, Any], key: str, otherwise: int) -> int:
    """A whole number from a file that anybody may have edited; at least 1."""
    return max(1, int(number_in(block.get(key), otherwise)))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(item) for item in _list(value))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _block(spec: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = spec.get(key)
    return found if isinstance(found, dict) else {}
