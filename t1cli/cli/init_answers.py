"""From what was given on the command line to complete answers: asked for at a terminal, proposed without one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from t1cli.errors import BadInput
from t1cli.first_spec.answers import ALGORITHMS, NO_GPU_MODEL, Answers, gpu_kinds, models
from t1cli.first_spec.machine import gpus_here, kind_here
from t1cli.ui.init_dialogue import ask

T = TypeVar("T")

_USUAL_KIND, _USUAL_MODEL = "h200", "qwen3-8b"


@dataclass(frozen=True)
class Given:
    """Options as they were typed; None where there was none."""

    name: str | None
    tasks: Path | None
    gpus: int | None
    gpu_kind: str | None
    model: str | None
    algorithm: str | None
    pool: tuple[str, ...]
    weights: str | None


def complete(given: Given, output: Path, *, asking: bool) -> Answers:
    """Every answer. Raises BadInput when there are no tasks and nobody to ask."""
    if given.algorithm not in (None, *ALGORITHMS):
        raise BadInput(f"algorithm {given.algorithm!r}", "--algorithm", "grpo or ppo")

    def one(value: T | None, question: str, default: str, read: Callable[[str], T]) -> T:
        if value is not None:
            return value
        return ask(question, default, read) if asking else read(default)

    tasks = one(given.tasks or _usual_tasks(output, asking), "directory of tasks", "tasks", _directory)
    name = one(given.name, "name of the campaign", _name_of(output), str)
    gpus = one(given.gpus, "GPUs of the cluster (0: train a tiny model here)", str(gpus_here()), _whole)
    if not gpus:
        if given.algorithm == "grpo":
            raise BadInput("grpo without GPUs is no proposal of t1 init", "--algorithm", "leave it out: ppo")
        return Answers(name, tasks, 0, "", given.model or NO_GPU_MODEL, "ppo", given.pool)
    return Answers(
        name=name,
        tasks=tasks,
        gpus=gpus,
        gpu_kind=one(given.gpu_kind, "kind of GPU", kind_here(gpu_kinds()) or _USUAL_KIND, _of(gpu_kinds())),
        model=one(given.model, "model", _USUAL_MODEL, _of(models())),
        algorithm="ppo" if one(given.algorithm, "grpo or ppo", "grpo", _of(list(ALGORITHMS))) == "ppo" else "grpo",
        pool=given.pool or one(None, "pool servers, by URL (none: sandboxes on the training host)", "none", _urls),
        weights=one(given.weights, "Hugging Face directory of the model", "<HF_CHECKPOINT>", str),
    )


def _usual_tasks(output: Path, asking: bool) -> Path | None:
    """`tasks` beside the file that will be written, where nobody can be asked."""
    usual = output.parent / "tasks"
    if asking:
        return None
    if not usual.is_dir():
        raise BadInput(
            "no directory of tasks was named", "--tasks", "`t1 tasks new tasks/NAME` writes a task to begin with"
        )
    return usual


def _name_of(output: Path) -> str:
    found = re.sub(r"[^a-z0-9._-]+", "-", output.resolve().parent.name.lower()).strip("-._")
    return found[:64] or "campaign"


def _directory(text: str) -> Path:
    path = Path(text).expanduser()
    if not path.is_dir():
        raise ValueError(f"no directory {text}; `t1 tasks new {text}/NAME` writes a task to begin with")
    return path


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is no number of GPUs")
    return int(text)


def _of(names: list[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in names:
            raise ValueError(f"{text!r} is none of {', '.join(names)}")
        return text

    return read


def _urls(text: str) -> tuple[str, ...]:
    return () if text == "none" else tuple(text.replace(",", " ").split())
