"""The embedded engine: the campaign runs in this process, or in a session of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from t1cli.launch.backend import End, Invocation, Job, Occupation, Progress, Started
from t1cli.launch.gates import Refusal
from t1cli.run.directory import RunDirectory
from t1cli.run.process_identity import ProcessIdentity
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import LoadedSpec

if TYPE_CHECKING:
    from t1cli.run.measured import Measured

ENVIRONMENT: Final = {"PYTHONUNBUFFERED": "1"}


class EmbeddedBackend:
    """In-process by default, so that Ctrl-C and every other signal act on the campaign itself."""

    engine = "embedded"

    def refusals(self, loaded: LoadedSpec) -> tuple[Refusal, ...]:
        """The embedded engine needs its extra."""
        missing = [name for name in ("torch", "safetensors") if not _installed(name)]
        if not missing:
            return ()
        message = f"the embedded engine needs {', '.join(missing)}"
        fix = "`pip install 't1cli[embedded]'`"
        return (Refusal("engine", message, loaded.where("engine.kind"), fix, acceptable=False),)

    def invocation(self, loaded: LoadedSpec, run: RunDirectory) -> Invocation:
        """The process that `--detach` starts; without it the same code runs inside `t1 launch`."""
        return Invocation(self._argv(run, resume=False), ENVIRONMENT, None)

    def occupation(self, campaign: Path) -> Occupation | None:
        """None: the lock's process is the campaign itself."""
        return None

    def start(self, job: Job) -> Started:
        """A detached process, or the campaign ready to run here."""
        if job.detach:
            return self._start_detached(job)
        me = ProcessIdentity.of()
        return Started(f"pid:{me.pid}", me, foreground=lambda: run_embedded(job))

    def _start_detached(self, job: Job) -> Started:
        job.run.logs.mkdir(parents=True, exist_ok=True)
        with job.run.process_log.open("ab") as output:
            process = subprocess.Popen(
                self._argv(job.run, resume=job.resume),
                env={**os.environ, **ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Started(f"pid:{process.pid}", ProcessIdentity.of(process.pid))

    @staticmethod
    def _argv(run: RunDirectory, *, resume: bool) -> tuple[str, ...]:
        return (sys.executable, "-m", "t1cli.embedded", str(run.path), *(["--resume"] if resume else []))


def run_embedded(job: Job) -> End:
    """Run the campaign in this process until its end."""
    from t1cli.embedded.campaign import run_campaign

    return run_campaign(job.run, job.spec, resume=job.resume, progress=job.progress).outcome


def evaluate_embedded(spec: ExperimentSpec, checkpoint: Path, on_line: Progress) -> Measured:
    """The evaluation block on weights of this engine, on this machine."""
    from t1cli.embedded.evaluate_checkpoint import evaluate_checkpoint

    return evaluate_checkpoint(spec, checkpoint, on_line=on_line)


def _installed(package: str) -> bool:
    from importlib.util import find_spec

    return find_spec(package) is not None
