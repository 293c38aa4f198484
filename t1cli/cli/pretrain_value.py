"""`t1 pretrain-value RUN`: a critic fitted to a run's saved rollouts, for the next campaign to start from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from t1cli.errors import ExitCode, Refused

if TYPE_CHECKING:
    from t1cli.embedded.pretrain_value import Pretrained


def command(
    run: Annotated[str, typer.Argument(help="Run: name, name/attempt_N or path.")],
    output: Annotated[Path, typer.Option(help="Directory for critic.safetensors and pretrained.json.")],
    held_back: Annotated[int | None, typer.Option(metavar="ROLLOUTS", help="Held back at the end; a fifth.")] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the rollouts at most.")] = 12,
    threads: Annotated[int, typer.Option(min=1, help="Threads of torch.")] = 1,
    set_: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a value.")] = [],  # noqa: B006
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    runs_dir: Annotated[Path | None, typer.Option(help="Where run directories are.")] = None,
) -> int:
    """Fit a critic offline; exit 1 unless it explains more of held-back rollouts than a cold one."""
    from t1cli.run.attempts import find_run, runs_root
    from t1cli.spec.load import load_experiment
    from t1cli.ui.console import aside
    from t1cli.ui.json_view import print_object

    found = find_run(run, runs_root(runs_dir))
    spec = load_experiment(found.spec_yaml, set_).spec
    if spec.engine.kind != "embedded":
        raise Refused(
            "a critic of this size is fitted by its cluster, not here",
            where="engine.kind",
            hint="--set algorithm.critic.critic_only_steps=N trains the critic alone for the first N rollouts",
        )
    from t1cli.embedded.pretrain_value import Asked, pretrain_value

    asked = Asked(output, held_back, epochs, threads=threads)
    made = pretrain_value(found, spec, asked, lambda line: aside().print(line))
    print_object(made.to_json()) if json else _print(made)
    return ExitCode.YES if made.better else ExitCode.NO


def _print(made: Pretrained) -> None:
    rows = (("cold", made.cold), ("pretrained", made.pretrained))
    typer.echo(f"{'✓' if made.better else '✗'} {made.run}   {made.trials} trials learned from, epoch {made.epoch}")
    typer.echo(f"  on {made.held_back_trials} trials of rollouts {_span(made.held_back_rollouts)}, held back:")
    typer.echo(f"  {'':<12}{'explained variance':>20}{'mean value':>12}{'mean return':>13}")
    for name, fit in rows:
        figure = "none to explain" if fit.explained_variance is None else f"{fit.explained_variance:.3f}"
        typer.echo(f"  {name:<12}{figure:>20}{fit.value_mean:>12.4f}{fit.return_mean:>13.4f}")
    if made.own_step_0 is not None:
        typer.echo(f"  the run's own critic began at {made.own_step_0:.3f}")
    typer.echo(f"Next: --set model.checkpoints.warm_critic={made.output}")


def _span(rollouts: tuple[int, ...]) -> str:
    from t1cli.run.rollout_number import rollout_number

    first, last = rollout_number(rollouts[0]), rollout_number(rollouts[-1])
    return str(first) if len(rollouts) == 1 else f"{first} to {last}"
