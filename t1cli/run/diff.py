"""What differs between two runs: the spec they ran, the code they ran it with, the environment they ran in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from t1cli.records import read_json
from t1cli.run.directory import RunDirectory
from t1cli.run.record import RunRecord, read_record
from t1cli.run.run_files import saved_spec, spec_differences

FORMAT_VERSION = 1
Part = Literal["spec", "code", "environment"]
_OWN: Final = ("checkpoint.actor_dir", "checkpoint.critic_dir")
"""Paths inside a run's own directory differ between any two runs."""


@dataclass(frozen=True)
class RunChange:
    """One value that differs; None where a run does not have it."""

    part: Part
    key: str
    old: Any
    new: Any
    where: str
    """Where the new value comes from: `file:line`, `--set`, `record.json`."""


@dataclass(frozen=True)
class RunDiff:
    """Everything that differs between the newest sessions of two runs."""

    old: str
    new: str
    changes: tuple[RunChange, ...]

    def to_json(self) -> dict[str, Any]:
        """One JSON object with `format_version` first."""
        return {"format_version": FORMAT_VERSION, **asdict(self)}


def diff_runs(old: RunDirectory, new: RunDirectory) -> RunDiff:
    """Compare two runs by their own files. Raises Refused when one has no record."""
    before, after = read_record(old), read_record(new)
    changes = (*_spec(old, new), *_code(before, after), *_environment(before, after))
    return RunDiff(str(old.path), str(new.path), changes)


def _spec(old: RunDirectory, new: RunDirectory) -> Iterator[RunChange]:
    origins = read_json(new.origins_json) or {}
    for key, (before, after) in spec_differences(saved_spec(old), saved_spec(new)).items():
        inside = str(after).startswith(str(new.path)) and str(before).startswith(str(old.path))
        if not (key in _OWN and inside):
            yield RunChange("spec", key, before, after, _origin(origins, key))


def _origin(origins: Mapping[str, Any], key: str) -> str:
    """The origin of a key, or of the nearest one above it."""
    while key:
        origin = origins.get(key)
        if isinstance(origin, dict):
            return str(origin.get("where", ""))
        key = key.rpartition(".")[0]
    return "spec.resolved.yaml"


def _code(before: RunRecord, after: RunRecord) -> Iterator[RunChange]:
    for name in ("t1_git", "spec_git"):
        old, new = asdict(getattr(before.session, name)), asdict(getattr(after.session, name))
        yield from _changes("code", old, new, f"{name}.")
    yield from _changes("code", before.session.versions, after.session.versions, "versions.")
    yield from _changes("code", {"engine": before.engine}, {"engine": after.engine}, "")


def _environment(before: RunRecord, after: RunRecord) -> Iterator[RunChange]:
    yield from _changes("environment", before.session.environment, after.session.environment, "")
    yield from _changes("environment", {"host": before.session.host}, {"host": after.session.host}, "")
    accepted = (before.session.accepted, after.session.accepted)
    yield from _changes("environment", {"accepted": accepted[0]}, {"accepted": accepted[1]}, "")


def _changes(part: Part, old: Mapping[str, Any], new: Mapping[str, Any], prefix: str) -> Iterator[RunChange]:
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            yield RunChange(part, prefix + key, old.get(key), new.get(key), "record.json")
