"""`t1 eval CHECKPOINT SPEC`: the evaluation block on a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from t1cli.errors import ExitCode

if TYPE_CHECKING:
    from t1cli.launch.evaluation import EvaluationAnswer
    from t1cli.spec.load import LoadedSpec


def command(
    checkpoint: Annotated[str, typer.Argument(help="Weights of the engine's format, or a run: its newest save.")],
    spec: Annotated[str, typer.Argument(help="Experiment file, its directory, or a shipped experiment's name.")],
    set_: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a value.")] = [],  # noqa: B006
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    dry_run: Annotated[bool, typer.Option(help="On slime: show the job, start nothing.")] = False,
    accept: Annotated[list[str], typer.Option(metavar="ID", help="Override a refusal; recorded. May repeat.")] = [],  # noqa: B006
    runs_dir: Annotated[Path | None, typer.Option(help="Where run directories are.")] = None,
) -> int:
    """Solved, scored and scheduled trials, mean, spread and interval; exit 1 unless every trial was scored.

    With `engine.kind: slime` the evaluation is a job of its own on the cluster, a run called `NAME.eval`.
    """
    from t1cli.launch.evaluation import nothing_to_measure_by
    from t1cli.spec.load import load_experiment
    from t1cli.ui.eval_view import print_evaluation
    from t1cli.ui.json_view import print_object

    loaded = load_experiment(Path(spec), set_)
    if loaded.spec.evaluation is None:
        raise nothing_to_measure_by(loaded, ("eval", checkpoint, spec), set_, runs_dir)
    if loaded.spec.engine.kind == "slime":
        found = _on_slime(
            loaded, checkpoint, (spec, runs_dir, tuple(set_), tuple(accept)), dry_run=dry_run, as_json=json
        )
    else:
        found = _here(loaded, checkpoint, runs_dir, dry_run=dry_run)
    if isinstance(found, int):
        return found
    if json:
        print_object(found.to_json())
    else:
        print_evaluation(found)
    return ExitCode.YES if found.complete else ExitCode.NO


def _here(loaded: LoadedSpec, checkpoint: str, runs_dir: Path | None, *, dry_run: bool) -> EvaluationAnswer:
    from t1cli.errors import BadInput
    from t1cli.launch.evaluation import evaluate_here
    from t1cli.run.attempts import runs_root
    from t1cli.run.evaluated_weights import evaluated_weights
    from t1cli.run.run_files import grounded_spec
    from t1cli.ui.console import aside

    if dry_run:
        raise BadInput("--dry-run shows a cluster's job; the embedded engine evaluates in this process")
    weights = evaluated_weights(checkpoint, runs_root(runs_dir))
    return evaluate_here(grounded_spec(loaded), weights, lambda line: aside().print(line))


def _on_slime(
    loaded: LoadedSpec,
    checkpoint: str,
    given: tuple[str, Path | None, tuple[str, ...], tuple[str, ...]],
    *,
    dry_run: bool,
    as_json: bool,
) -> EvaluationAnswer | int:
    from t1cli.launch.evaluate_job import EvaluationRequest, evaluate_as_job, evaluation_command
    from t1cli.launch.proposal import LaunchOptions
    from t1cli.run.attempts import runs_root
    from t1cli.spec.command_line import command_line
    from t1cli.ui.eval_view import EvaluationDialogue, print_command
    from t1cli.ui.json_view import print_object

    spec, runs_dir, overrides, accepted = given
    accepts = [word for id_ in accepted for word in ("--accept", id_)]
    line = command_line("eval", checkpoint, spec, overrides=overrides, runs_dir=runs_dir, more=accepts)
    request = EvaluationRequest(
        loaded, checkpoint, LaunchOptions(runs_root(runs_dir), line, accepted=frozenset(accepted), assume_yes=True)
    )
    if not dry_run:
        return evaluate_as_job(request, EvaluationDialogue())
    found = evaluation_command(request)
    print_object(found) if as_json else print_command(found)
    return ExitCode.NO if found["refusals"] else ExitCode.YES
