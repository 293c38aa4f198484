"""Continuing the latest attempt: whether it is the same campaign, and from which checkpoint it goes on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from t1cli.errors import Refused
from t1cli.launch.gates import Refusal
from t1cli.run.attempts import latest_attempt
from t1cli.run.directory import RunDirectory
from t1cli.run.next_command import resume_command
from t1cli.run.record import RunRecord, read_record
from t1cli.run.redaction import Redactor
from t1cli.run.run_files import grounded_spec, saved_spec, spec_differences
from t1cli.run.save_directories import newest_saved_rollout, save_directories
from t1cli.run.state import RunState, standing
from t1cli.spec.load import LoadedSpec

# What a session may change without becoming another campaign: how long, how watched, how fast; never what is learned.
FLEXIBLE_KEYS: Final = (
    "rollout.num_rollouts",
    "rollout.start_order",
    "rollout.expected_seconds",
    "rollout.expected_train_seconds",
    "checkpoint.every_rollouts",
    "checkpoint.retention",
    "tracking",
    "watch",
    "hardware",
    "sandbox.capacity",
    "trainer.cpu_threads",
    "engine.ray_address",
    "engine.server_threads",
    "engine.max_batch",
)


def family_digest(loaded: LoadedSpec) -> str:
    """Short hash of what makes two sessions the same campaign: the spec without FLEXIBLE_KEYS.

    Taken of the grounded spec without secrets, so that a run's spec.resolved.yaml belongs to its own family.
    """
    content = Redactor().json(grounded_spec(loaded).model_dump(mode="json"))
    for key in FLEXIBLE_KEYS:
        _drop(content, key)
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def attempt_to_resume(campaign: Path, loaded: LoadedSpec) -> tuple[RunDirectory, RunRecord]:
    """The latest attempt and its record. Raises Refused when there is none, or when it is another campaign's."""
    run = latest_attempt(campaign)
    if run is None:
        raise Refused(
            f"nothing to resume: campaign `{campaign.name}` has no attempt",
            where=str(campaign),
            hint=f"`{loaded.again('launch', runs_dir=campaign.parent)}` starts the first one",
        )
    record = read_record(run)
    if record.name != loaded.spec.name or record.family != family_digest(loaded):
        raise Refused(
            f"attempt {run.attempt} belongs to another campaign: {_what_differs(run, record, loaded)}",
            where=str(run.path),
            hint=f"`{resume_command(run, None)}` resumes it as it began; without --resume a new attempt begins",
        )
    return run, record


def resume_refusals(loaded: LoadedSpec, run: RunDirectory) -> tuple[Refusal, ...]:
    """What speaks against going on: nothing is left to do, or the checkpoints are no place to go on from (C8)."""
    saved = newest_saved_rollout(save_directories(loaded.spec, run))
    if saved is not None and saved >= loaded.spec.rollout.num_rollouts and standing(run).state is RunState.FINISHED:
        return (_nothing_left(loaded, saved),)
    return () if loaded.spec.checkpoint.what == "full" or saved is None else (_weights_alone(loaded),)


def _nothing_left(loaded: LoadedSpec, saved: int) -> Refusal:
    return Refusal(
        "finished",
        f"{saved} of {loaded.spec.rollout.num_rollouts} rollouts are done: nothing is left to go on with",
        loaded.where("rollout.num_rollouts"),
        f"`--set rollout.num_rollouts={2 * saved}` trains on",
    )


def _weights_alone(loaded: LoadedSpec) -> Refusal:
    """Weights hold neither optimizer nor random state."""
    return Refusal(
        "C8",
        "checkpoints of this campaign hold weights alone: going on from one restarts Adam, the learning-rate "
        "schedule and the task order",
        loaded.where("checkpoint.what"),
        "`checkpoint.what: full` makes later campaigns resumable",
    )


def _what_differs(run: RunDirectory, record: RunRecord, loaded: LoadedSpec) -> str:
    if record.name != loaded.spec.name:
        return f"it is called `{record.name}`, the spec `{loaded.spec.name}`"
    redactor = Redactor.of_environment(None, loaded.spec.model_dump(mode="json"))
    now = redactor.json(grounded_spec(loaded).model_dump(mode="json"))
    different = {
        key: values
        for key, values in spec_differences(saved_spec(run), now).items()
        if not any(key == flexible or key.startswith(f"{flexible}.") for flexible in FLEXIBLE_KEYS)
    }
    shown = [f"{key} {old!r} → {new!r}" for key, (old, new) in list(different.items())[:5]]
    more = f" and {len(different) - 5} more" if len(different) > 5 else ""
    return (", ".join(shown) + more) or "its spec differs"


def _drop(content: dict[str, Any], dotted: str) -> None:
    head, _, rest = dotted.partition(".")
    if not rest:
        content.pop(head, None)
    elif isinstance(content.get(head), dict):
        _drop(content[head], rest)
