"""`t1 eval RUN SPEC` on the embedded engine: the newest save of a run, on tasks that share no name with its pool."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.embedded.first_weights import SHIPPED
from t1cli.embedded.siblings import main, pool_names
from t1cli.errors import BadInput
from t1cli.run.directory import RunDirectory
from t1cli.run.evaluated_weights import evaluated_weights
from t1cli.run.events import EventKind, EventWriter

POOL = Path(__file__).parents[3] / "experiments" / "quickstart" / "tasks"
TASKS = 3


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    """A run whose newest save is the shipped actor; beside it an older one, and the critic's."""
    monkeypatch.setenv("T1_RUNS_DIR", str(tmp_path / "runs"))
    made = RunDirectory(tmp_path / "runs" / "quickstart" / "attempt_1")
    events = EventWriter(made.events_jsonl)
    for role, rollout, weights in (("actor", 8, b"older"), ("actor", 16, None), ("critic", 16, b"no actor")):
        place = made.path / "checkpoints" / role / f"iter_{rollout:07d}"
        place.mkdir(parents=True)
        file = place / "model.safetensors"
        file.write_bytes(weights) if weights is not None else shutil.copy(SHIPPED, file)
        events.write(EventKind.CHECKPOINT, rollout=rollout, role=role, path=str(place), bytes=1)
    events.close()
    return made


def test_the_guide_evaluates_a_run_on_unseen_siblings(run: RunDirectory, tmp_path: Path) -> None:
    unseen = tmp_path / "unseen"
    main([str(unseen), "--unlike", str(POOL), "--count", str(TASKS)])
    assert len(list(unseen.iterdir())) == TASKS and not pool_names(unseen) & pool_names(POOL)
    settings = {"name": "unseen", "path": unseen, "num_tasks": TASKS, "context_tokens": 512, "repeats": 1,
                "max_new_tokens_per_turn": 48, "max_turns": 10}  # fmt: skip
    overrides = [word for key, value in settings.items() for word in ("--set", f"evaluation.{key}={value}")]
    done = CliRunner().invoke(app, ["eval", "quickstart", "quickstart", *overrides, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["scored"], found["scheduled"], found["complete"]) == (TASKS, TASKS, True)
    assert found["checkpoint"] == str(run.path / "checkpoints/actor/iter_0000016")


def test_a_copied_run_is_evaluated_by_its_own_saves(run: RunDirectory, tmp_path: Path) -> None:
    root = tmp_path / "elsewhere"
    copied = shutil.copytree(run.path, root / "quickstart" / "attempt_1")
    assert evaluated_weights("quickstart", root) == copied / "checkpoints/actor/iter_0000016"


def test_weights_are_named_by_file_directory_role_or_run(run: RunDirectory) -> None:
    newest = run.path / "checkpoints" / "actor" / "iter_0000016"
    (newest.parent / "latest").write_text("iter_0000008\n")
    root = run.path.parent.parent
    assert evaluated_weights(str(newest / "model.safetensors"), root) == newest / "model.safetensors"
    assert evaluated_weights(str(newest), root) == newest
    assert evaluated_weights(str(newest.parent), root) == newest.parent / "iter_0000008"
    assert evaluated_weights("quickstart", root) == evaluated_weights(str(run.path), root) == newest


def test_what_holds_no_weights_says_what_was_looked_for(run: RunDirectory, tmp_path: Path) -> None:
    root = run.path.parent.parent
    with pytest.raises(BadInput, match="no weights and no run at nowhere") as caught:
        evaluated_weights("nowhere", root)
    assert "runs here: quickstart" in caught.value.diagnostics[0].hint
    shutil.rmtree(run.path / "checkpoints")
    with pytest.raises(BadInput, match="quickstart attempt 1 has no saved weights"):
        evaluated_weights("quickstart", root)


def test_a_run_that_was_moved_still_has_its_saves(run: RunDirectory, tmp_path: Path) -> None:
    moved = run.path.rename(tmp_path / "attempt_1")
    assert evaluated_weights(str(moved), tmp_path) == moved / "checkpoints" / "actor" / "iter_0000016"
