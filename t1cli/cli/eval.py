"""`t1 eval CHECKPOINT SPEC`: the evaluation block on a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from t1cli.errors import ExitCode


def command(
    checkpoint: Annotated[str, typer.Argument(help="Weights: a file or directory of the engine's format.")],
    spec: Annotated[str, typer.Argument(help="Experiment file, its directory, or a shipped experiment's name.")],
    set_: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a value.")] = [],  # noqa: B006
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    runs_dir: Annotated[Path | None, typer.Option(help="Where run directories are.")] = None,
) -> int:
    """Solved, scored and scheduled trials, mean, spread and interval; exit 1 unless every trial was scored.

    With `engine.kind: slime` the answer is the command of slime's eval-only run; nothing is started.
    """
    from t1cli.launch.attempts import next_attempt, runs_root
    from t1cli.launch.evaluation import evaluate_here, slime_evaluation
    from t1cli.launch.run_files import grounded_spec
    from t1cli.spec.load import load_experiment
    from t1cli.ui.console import aside
    from t1cli.ui.eval_view import print_command, print_evaluation
    from t1cli.ui.json_view import print_object

    loaded = load_experiment(Path(spec), set_)
    if loaded.spec.engine.kind == "slime":
        run = next_attempt(runs_root(runs_dir) / loaded.spec.name)
        found = slime_evaluation(loaded.spec, checkpoint, run)
        print_object(found) if json else print_command(found)
        return ExitCode.YES
    answer = evaluate_here(grounded_spec(loaded), Path(checkpoint), lambda line: aside().print(line))
    if json:
        print_object(answer.to_json())
    else:
        print_evaluation(answer)
    return ExitCode.YES if answer.complete else ExitCode.NO
