"""`t1 checkpoint`: weights on their way into a campaign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from t1cli.cli.boundary import guarded
from t1cli.errors import ExitCode

group = typer.Typer(help="Checkpoints on their way into a campaign.", no_args_is_help=True)


@group.callback()
def _checkpoint() -> None:
    """Checkpoints on their way into a campaign."""


def convert(
    spec: Annotated[str, typer.Argument(help="Experiment file, its directory, or a shipped experiment's name.")],
    set_: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a value.")] = [],  # noqa: B006
    gpus: Annotated[int | None, typer.Option(min=1, help="GPUs of one node; all of the spec's by default.")] = None,
    run: Annotated[bool, typer.Option("--run", help="Run it on this machine instead of showing it.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Convert model.checkpoints.hf into model.checkpoints.torch_dist by slime's own tool: the command, or its run."""
    from t1cli.launch.slime.conversion import conversion_of, run_conversion
    from t1cli.spec.load import load_experiment
    from t1cli.ui.checkpoint_view import print_conversion
    from t1cli.ui.json_view import print_object

    conversion = conversion_of(load_experiment(Path(spec), set_), gpus)
    if run:
        run_conversion(conversion)
    if json:
        print_object(conversion.to_json())
    else:
        print_conversion(conversion, ran=run)
    return ExitCode.YES


group.command("convert")(guarded(convert))
