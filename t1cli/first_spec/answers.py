"""What a person says about a campaign that does not exist yet."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Literal

from t1cli.errors import BadInput, Diagnostic
from t1cli.spec.locate import preset_names

NO_GPU_MODEL: Final = "t1-tiny"
"""The only model that is trained without a GPU."""
NODE_GPUS: Final = 8
ALGORITHMS: Final = ("grpo", "ppo")

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_NO_GPU_HARDWARE: Final = "laptop"


@dataclass(frozen=True)
class Answers:
    """Everything that `t1 init` has to know."""

    name: str
    tasks: Path
    """Directory with one directory per task, Harbor's layout."""
    gpus: int
    """GPUs of the cluster; 0 for this machine alone."""
    gpu_kind: str
    """A hardware preset; not used without GPUs."""
    model: str
    """A model preset."""
    algorithm: Literal["grpo", "ppo"]
    pool: tuple[str, ...] = ()
    """URLs of pool servers; none for sandboxes on this machine."""
    weights: str | None = None
    """Hugging Face directory of the model as the nodes see it."""


def gpu_kinds() -> list[str]:
    """Hardware presets that have GPUs."""
    return [name for name in _presets("hardware") if name != _NO_GPU_HARDWARE]


def models() -> list[str]:
    """Model presets that are trained on GPUs."""
    return [name for name in _presets("model") if name != NO_GPU_MODEL]


def check(answers: Answers) -> None:
    """Raises BadInput with everything that cannot be, and a near name where there is one."""
    problems = [*_of_names(answers), *_of_gpus(answers)]
    if not _NAME.fullmatch(answers.name):
        problems.append(
            Diagnostic(f"name {answers.name!r}", "--name", hint="small letters, digits, dots, dashes, underscores")
        )
    if problems:
        raise BadInput.many(tuple(problems))


def _of_names(answers: Answers) -> list[Diagnostic]:
    if not answers.gpus:
        if answers.model == NO_GPU_MODEL:
            return []
        hint = f"--model {NO_GPU_MODEL}, or say with --gpus how many there are"
        return [Diagnostic(f"{answers.model} is not trained without GPUs", "--model", hint=hint)]
    found = []
    for option, name, known in (("--model", answers.model, models()), ("--gpu-kind", answers.gpu_kind, gpu_kinds())):
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            found.append(Diagnostic(f"no preset {name!r}", option, hint=hint))
    return found


def _of_gpus(answers: Answers) -> list[Diagnostic]:
    if answers.gpus < 0 or (answers.gpus > NODE_GPUS and answers.gpus % NODE_GPUS):
        hint = f"up to {NODE_GPUS}, or whole nodes of {NODE_GPUS}"
        return [Diagnostic(f"{answers.gpus} GPUs", "--gpus", hint=hint)]
    return []


def _presets(axis: str) -> list[str]:
    return [name.removeprefix(f"{axis}/") for name in preset_names() if name.startswith(f"{axis}/")]
