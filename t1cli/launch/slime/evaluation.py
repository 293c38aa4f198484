"""An evaluation of one checkpoint as a Ray job of its own: a run called `NAME.eval`, which trains and saves nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from t1cli.errors import Refused
from t1cli.launch.backend import Invocation, Job, Started
from t1cli.launch.gates import Refusal
from t1cli.launch.resume import family_digest
from t1cli.launch.slime.backend import SlimeBackend, follower
from t1cli.launch.slime.compile import compile_evaluation, evaluation_problems, load_flags
from t1cli.launch.slime.conversion import is_converted
from t1cli.launch.slime.job import SessionPlace, job_json
from t1cli.launch.slime.submit import Submission, submit
from t1cli.records import read_json, write_json
from t1cli.run.checkpoint_manifest import finished_rollout, iteration_directory
from t1cli.run.directory import RunDirectory
from t1cli.run.record import read_record
from t1cli.run.redaction import Redactor
from t1cli.slime.compile.campaign import key_of
from t1cli.spec.command_line import command_line
from t1cli.spec.engine import SlimeEngine
from t1cli.spec.load import LoadedSpec

SUFFIX: Final = ".eval"


class SlimeEvaluation(SlimeBackend):
    """slime's eval-only run."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = checkpoint

    def refusals(self, loaded: LoadedSpec) -> tuple[Refusal, ...]:
        """What a launch would refuse too, a checkpoint that is seen from here and has no save, wrong arguments."""
        before = super().refusals(loaded)
        if not isinstance(loaded.spec.engine, SlimeEngine) or loaded.spec.engine.from_script:
            return (*before, _from_script(loaded))
        return (*before, *_checkpoint_refusals(self._checkpoint), *_argument_refusals(loaded, self._checkpoint))

    def invocation(self, loaded: LoadedSpec, run: RunDirectory) -> Invocation:
        """The command, its environment and its job, without secrets; nothing is written."""
        compiled = compile_evaluation(loaded.spec, run, self._checkpoint)
        place = SessionPlace(run, 1, family_digest(loaded), loaded.digest, self._checkpoint)
        redactor = Redactor.of_environment(None, loaded.spec.model_dump(mode="json"))
        job = redactor.json(job_json(loaded.spec, place, compiled))
        return Invocation(redactor.argv(compiled.argv), redactor.json(dict(compiled.env)), None, job)

    def start(self, job: Job) -> Started:
        """Write down what is evaluated, submit, follow."""
        record = read_record(job.run)
        write_json(job.run.evaluation_request, {"checkpoint": self._checkpoint})
        place = SessionPlace(
            job.run, record.session.number, record.family, record.session.digest, checkpoint=self._checkpoint
        )
        session = Submission(
            place,
            compile_evaluation(job.spec, job.run, self._checkpoint),
            f"t1-{job.spec.name}-a{job.run.attempt}",
            # Its engines and trainers need the same GPUs.
            beside=(job.spec.name.removesuffix(SUFFIX),),
        )
        return follower(job.run, submit(job, session, record.session.accepted), job)


def evaluated_checkpoint(run: RunDirectory) -> str | None:
    """What the evaluation in a run directory is of."""
    found = (read_json(run.evaluation_request) or {}).get("checkpoint")
    return found if isinstance(found, str) else None


def _checkpoint_refusals(checkpoint: str) -> tuple[Refusal, ...]:
    """slime silently evaluates the initial weights where it finds no tracker; a path of the nodes alone they check."""
    flags = load_flags(checkpoint)
    directory, step = Path(flags["--load"]), flags.get("--ckpt-step")
    if not directory.exists():
        return ()
    missing = step is not None and not iteration_directory(directory, int(step)).is_dir()
    if (is_converted(directory) or finished_rollout(directory) is not None) and not missing:
        return ()
    said = f"no finished Megatron checkpoint at {checkpoint}"
    hint = "a role directory with latest_checkpointed_iteration.txt, or one iter_N of it; `t1 checkpoint convert` "
    return (Refusal("checkpoint", said, checkpoint, hint + "makes one of Hugging Face weights", acceptable=False),)


def _argument_refusals(loaded: LoadedSpec, checkpoint: str) -> tuple[Refusal, ...]:
    run = RunDirectory(Path("runs") / loaded.spec.name / "attempt_1")
    compiled = compile_evaluation(loaded.spec, run, checkpoint)
    return tuple(
        Refusal(problem.id, problem.message, loaded.where(key_of(problem.flag)), problem.fix)
        for problem in evaluation_problems(loaded.spec, compiled)
        if problem.severity == "error"
    )


def _from_script(loaded: LoadedSpec) -> Refusal:
    message = "a spec read from a slime script runs slime's own rollout, whose evaluation t1 does not measure"
    where = loaded.where("engine.from_script")
    return Refusal(
        "engine", message, where, "the script's own --eval-… arguments with --num-rollout 0", acceptable=False
    )


def refuse_other(run: RunDirectory, checkpoint: str, job_id: str, loaded: LoadedSpec) -> None:
    """Raise Refused when the evaluation that lives in a run is of something else."""
    former = evaluated_checkpoint(run)
    if former != checkpoint:
        again = command_line(
            "eval", former or "CHECKPOINT", loaded.asked, overrides=loaded.overrides, runs_dir=run.path.parent.parent
        )
        raise Refused(
            f"job {job_id} is still running: it evaluates {former}",
            where=str(run.path),
            hint=f"`{again}` follows it again, `ray job stop {job_id}` ends it",
        )
