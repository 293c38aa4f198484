"""What every backend answers: what it would run, why it would not, and the start itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from t1cli.launch.gates import Refusal
from t1cli.run.directory import RunDirectory
from t1cli.run.process_identity import ProcessIdentity
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import LoadedSpec

Progress = Callable[[str], None]
"""Takes one line for people; it may come often."""


End = Literal["finished", "stopped", "detached"]
"""How a campaign ended that neither failed nor was interrupted; `stopped` is by request, after a save.

`detached`: it has not ended; whoever watched over it from here has left, and the cluster runs on.
"""


@dataclass(frozen=True)
class Invocation:
    """What a backend would run, without secrets."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    """Only what t1 sets; the rest is inherited."""
    role_file: Mapping[str, Any] | None
    """slime's per-role overrides; None where there is no role file."""
    job: Mapping[str, Any] | None = None
    """What Ray's job server would be given; None for a process of this machine."""
    evaluation_argv: tuple[str, ...] | None = None
    """The evaluation of step 0 that the job runs first, where the campaign's own entry never makes one."""


@dataclass(frozen=True)
class Job:
    """What is to be started."""

    run: RunDirectory
    spec: ExperimentSpec
    resume: bool
    detach: bool
    progress: Progress


@dataclass(frozen=True)
class Started:
    """What a backend has started."""

    job_id: str
    """Ray job ID, or `pid:N` for a process of this machine."""
    owner: ProcessIdentity
    """The process that holds the campaign's lock from now on."""
    foreground: Callable[[], End] | None = None
    """Runs the campaign here and says how it ended; None when it runs elsewhere."""


@dataclass(frozen=True)
class Occupation:
    """A campaign's former job whose end is not on record."""

    job_id: str
    lives: bool
    refusal: Refusal | None
    """Why nothing else may be started; None when the job has ended and only its record is unfinished."""
    follow: Callable[[Job], Started] | None = None
    """Follows it again, here or in a process of its own."""


class Backend(Protocol):
    """Starts campaigns on one engine."""

    engine: str

    def refusals(self, loaded: LoadedSpec) -> tuple[Refusal, ...]:
        """Why this engine cannot run the spec at all."""
        ...

    def invocation(self, loaded: LoadedSpec, run: RunDirectory) -> Invocation:
        """What `start` would run; starts and writes nothing."""
        ...

    def occupation(self, campaign: Path) -> Occupation | None:
        """What still occupies `runs/<name>` though no process of this machine holds its lock."""
        ...

    def start(self, job: Job) -> Started:
        """Start the campaign, or prepare it to run in this process."""
        ...


def backend_for(spec: ExperimentSpec) -> Backend:
    """The backend of the spec's engine."""
    if spec.engine.kind == "embedded":
        from t1cli.launch.embedded_backend import EmbeddedBackend

        return EmbeddedBackend()
    from t1cli.launch.slime.backend import SlimeBackend

    return SlimeBackend()
