"""RunRecord: what was launched, from which code, on which machine, with what accepted. No secret is ever in it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from t1cli.errors import Refused
from t1cli.records import read_json, write_json
from t1cli.run.directory import RunDirectory
from t1cli.run.environment import recorded_environment
from t1cli.run.process_identity import ProcessIdentity
from t1cli.run.provenance import GitState, git_state, installed_versions, t1_source
from t1cli.run.redaction import Redactor

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Session:
    """One process that ran, or runs, an attempt. A resume adds a session to the same attempt."""

    number: int
    """From 1."""
    started: float
    """Unix seconds."""
    argv: tuple[str, ...]
    """The t1 command line."""
    digest: str
    """Digest of the spec that this session runs."""
    resumed_from_rollout: int | None
    """Rollout of the checkpoint that this session continued from; None when it started afresh."""
    accepted: tuple[str, ...]
    """Finding and check IDs whose refusal was overridden."""
    versions: Mapping[str, str]
    spec_git: GitState
    """The checkout that the experiment file lies in."""
    t1_git: GitState
    """The checkout that t1 itself runs from."""
    host: str
    environment: Mapping[str, str]


@dataclass(frozen=True)
class RunRecord:
    """What a launch left behind: one attempt of a campaign and every session that worked on it."""

    name: str
    attempt: int
    run_dir: str
    spec_path: str
    digest: str
    """Digest of the spec that the attempt began with."""
    family: str
    """Digest without what may change between sessions of one attempt."""
    engine: str
    job_id: str
    """Ray job ID, or `pid:N` for a process of this machine."""
    sessions: tuple[Session, ...]

    @property
    def session(self) -> Session:
        """The newest session."""
        return self.sessions[-1]

    @property
    def run_tag(self) -> str:
        """A name that no other session shares; trial directories and sandbox owners carry it."""
        return f"{self.name}.a{self.attempt}.s{self.session.number}"

    def to_json(self) -> dict[str, Any]:
        """One JSON object with `format_version` first."""
        return {"format_version": FORMAT_VERSION, **asdict(self)}

    def resumed(self, session: Session, job_id: str) -> RunRecord:
        """The record with one more session."""
        return replace(self, sessions=(*self.sessions, session), job_id=job_id)


def describe_session(
    *, number: int, digest: str, spec_path: Path, accepted: tuple[str, ...], redactor: Redactor
) -> Session:
    """This process, now. `resumed_from_rollout` is filled in by whoever resumes."""
    return Session(
        number=number,
        started=time.time(),
        argv=redactor.argv(sys.argv),
        digest=digest,
        resumed_from_rollout=None,
        accepted=accepted,
        versions=installed_versions(),
        spec_git=git_state(spec_path.resolve().parent),
        t1_git=git_state(t1_source()),
        host=ProcessIdentity.of().host,
        environment=recorded_environment(redactor),
    )


def save_record(run: RunDirectory, record: RunRecord, redactor: Redactor) -> None:
    """Write record.json."""
    write_json(run.record_json, redactor.json(record.to_json()))


def read_record(run: RunDirectory) -> RunRecord:
    """Read record.json back. Raises Refused when it is missing or not one of ours."""
    value = read_json(run.record_json)
    if value is None:
        there = os.path.lexists(run.record_json)
        found = "not one JSON object, or no file at all" if there else "the launch ended before it was written"
        hint = "a launch without `--resume` begins a new attempt"
        raise Refused(f"no run record: {found}", where=str(run.record_json), hint=hint)
    version = value.get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        raise Refused(
            f"a run record of format {version}: this t1 reads up to {FORMAT_VERSION}",
            where=str(run.record_json),
            hint="the t1 that launched the run, or a newer one",
        )
    try:
        record: RunRecord = _reader().validate_python(value)
        if not record.sessions:
            raise ValueError("it lists no session")
        return record
    except ValueError as problem:
        raise Refused(
            f"a run record that this t1 cannot read: {_said(problem)}",
            where=str(run.record_json),
            hint="it was written by another version of t1, or edited",
        ) from problem


@cache
def _reader() -> TypeAdapter[RunRecord]:
    """Checks every value: whoever edits a record must not find out in the middle of a diff."""
    return TypeAdapter(RunRecord)


def _said(problem: ValueError) -> str:
    if not isinstance(problem, ValidationError):
        return str(problem)
    first = problem.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"`{'.'.join(map(str, first['loc']))}`: {first['msg']}"
