"""Answers to the text of an experiment file, loaded and planned before anybody sees it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from memory_model.search import Progress
from t1cli.errors import BadInput, CouldNotAsk, Refused
from t1cli.first_spec.answers import Answers, check
from t1cli.first_spec.blocks import Draft
from t1cli.first_spec.embedded import embedded_draft
from t1cli.first_spec.on_gpus import gpu_draft
from t1cli.first_spec.own_tasks import OwnTasks, read_tasks
from t1cli.plan.build import build_plan
from t1cli.plan.plan import Plan
from t1cli.spec.load import LoadedSpec, load_experiment


@dataclass(frozen=True)
class Proposal:
    """A file to be written, and what the plan says of it."""

    text: str
    plan: Plan
    tasks: OwnTasks


def refuse_existing(output: Path) -> None:
    """Raises Refused when there is anything at the path, and BadInput when nothing can be."""
    if output.exists() or output.is_symlink():
        raise Refused(f"{output} exists and is left alone", str(output), "t1 init --output ANOTHER.yaml")
    if not output.resolve().parent.is_dir():
        raise BadInput(f"no directory {output.resolve().parent}", "--output", "make it first")


def propose(answers: Answers, output: Path, progress: Progress | None = None) -> Proposal:
    """The spec that these answers lead to. BadInput for answers or tasks that cannot be, Refused when none fits."""
    check(answers)
    tasks = read_tasks(answers.tasks)
    if answers.gpus:
        draft = gpu_draft(answers, tasks, output, _loaded, progress)
    else:
        draft = embedded_draft(answers, tasks, output)
    return Proposal(draft.text(), build_plan(replace(_loaded(draft), path=output), source=str(output)), tasks)


def write(proposal: Proposal, output: Path) -> None:
    """Write the file; one that came into being meanwhile is left alone."""
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(proposal.text)
    except FileExistsError as error:
        raise Refused(f"{output} exists and is left alone", str(output)) from error
    except OSError as error:
        raise CouldNotAsk(f"cannot write {output}: {error.strerror}", str(output)) from error


def _loaded(draft: Draft) -> LoadedSpec:
    """The spec that the draft's text means, read the way that any file is."""
    with tempfile.TemporaryDirectory(prefix="t1-init-") as directory:
        path = Path(directory) / "experiment.yaml"
        path.write_text(draft.text(), encoding="utf-8")
        return load_experiment(path)
