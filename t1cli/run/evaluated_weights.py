"""Which weights `t1 eval` means: a file, a directory of them, a role's directory, or a run and its newest save."""

from __future__ import annotations

from pathlib import Path

from t1cli.errors import BadInput
from t1cli.run.attempts import find_run
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventKind, read_events

WEIGHTS = "model.safetensors"


def evaluated_weights(named: str, root: Path) -> Path:
    """Weights of the embedded engine. Raises BadInput when there are none, saying what it looked for."""
    place = Path(named)
    if place.is_file() or (place / WEIGHTS).is_file():
        return place
    if (place / "latest").is_file():
        return place / (place / "latest").read_text(encoding="utf-8", errors="replace").strip()
    try:
        run = find_run(named, root)
    except BadInput as error:
        hint = f"a {WEIGHTS}, a checkpoint's directory, or a run; {error.diagnostics[0].hint}"
        raise BadInput(f"no weights and no run at {named}", where="CHECKPOINT", hint=hint) from error
    return _newest_save(run)


def _newest_save(run: RunDirectory) -> Path:
    saves = [event for event in read_events(run.events_jsonl) if event.kind is EventKind.CHECKPOINT]
    places = [_below(run, Path(event.text("path"))) for event in saves if event.text("role") == "actor"]
    found = [place for place in places if _has_weights(place)]
    if not found:
        hint = "a campaign saves every `checkpoint.every_rollouts` rollouts; `t1 status` says what it has saved"
        raise BadInput(f"{run.name} attempt {run.attempt} has no saved weights", str(run.path), hint)
    return found[-1]


def _below(run: RunDirectory, recorded: Path) -> Path:
    """A run that was moved or copied has its saves below it, whatever else lies where they were written."""
    own = run.actor_checkpoints / recorded.name
    return own if _has_weights(own) else recorded


def _has_weights(place: Path) -> bool:
    return (place / WEIGHTS).is_file()
