"""`t1 rescore RUN`: what a run's trials would have been worth under another reward."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from t1cli.errors import BadInput, ExitCode


def command(
    run: Annotated[str, typer.Argument(help="Run: name, name/attempt_N or path.")],
    set_: Annotated[list[str] | None, typer.Option("--set", help="Change the reward: reward.kind=binary …")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    runs_dir: Annotated[Path | None, typer.Option(help="Where run directories are.")] = None,
) -> int:
    """Score the stored verdicts of a run again, by rollout and by family; nothing is run."""
    from dataclasses import asdict

    from t1cli.run.attempts import find_run, runs_root
    from t1cli.run.rollout_number import rollout_number
    from t1cli.spec.command_line import command_line
    from t1cli.spec.load import load_experiment
    from t1cli.terminal.rollout.rescore import compare, rescore
    from t1cli.ui.json_view import print_object

    found = find_run(run, runs_root(runs_dir))
    spec = load_experiment(found.spec_yaml, set_ or []).spec
    trials = list(rescore(found.trials, spec.reward))
    whole = compare(trials)
    if whole is None:
        hint = command_line("status", run, runs_dir=runs_dir)
        raise BadInput("no scored trial in this run", where=str(found.trials), hint=hint)
    rollouts = {number: compare(t for t in trials if t.rollout == number) for number in {t.rollout for t in trials}}
    families = {name: compare(t for t in trials if t.family == name) for name in {t.family for t in trials}}
    if json:
        parts = {
            "whole": asdict(whole),
            "rollouts": {str(number): asdict(part) for number, part in sorted(rollouts.items()) if part},
            "families": {name: asdict(part) for name, part in sorted(families.items()) if part},
        }
        print_object({"format_version": 1, "run": found.name, "reward": spec.reward.model_dump(), **parts})
        return ExitCode.YES
    header = f"{'':<20}{'trials':>8}{'was':>10}{'now':>10}{'solved':>10}{'changed':>10}"
    typer.echo(f"{found.name}: {spec.reward.kind}, {whole.fallback_share:.1%} of the reward from fallbacks\n{header}")
    rows = [("all", whole), *((f"rollout {rollout_number(n)}", part) for n, part in sorted(rollouts.items()))]
    for name, part in [*rows, *sorted(families.items())]:
        if part is not None:
            figures = f"{part.before_mean:>10.4f}{part.after_mean:>10.4f}{part.binary_mean:>10.4f}{part.changed:>10}"
            typer.echo(f"{name:<20}{part.trials:>8}{figures}")
    return ExitCode.YES
