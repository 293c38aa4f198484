"""ray_job.json: which job of which cluster a session runs as, written before the job is submitted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from t1cli.records import read_json, write_json
from t1cli.run.directory import RunDirectory


@dataclass(frozen=True)
class RayJob:
    """One submission. Without a state of its own: the cluster is asked for that."""

    job_id: str
    address: str
    """Of the cluster, as it was named."""
    source: str
    """Who named it."""
    session: int
    submitted: float
    """Unix seconds."""

    def save(self, run: RunDirectory) -> None:
        """Put it on record."""
        write_json(run.ray_job_json, asdict(self))


def read_ray_job(run: RunDirectory) -> RayJob | None:
    """The newest submission of a run; None when there was none."""
    value = read_json(run.ray_job_json)
    try:
        return None if value is None else RayJob(**value)
    except TypeError:
        return None


def job_directory(run: RunDirectory, session: int) -> Path:
    """What is uploaded as the job's working directory: its argv, role file and settings."""
    return run.job / f"session_{session}"
