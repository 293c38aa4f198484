"""`t1 init`: the first spec of a campaign, from answers or options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from t1cli.errors import ExitCode


def command(  # noqa: PLR0913 - each option of the command line is one parameter
    output: Annotated[Path, typer.Option(help="The file to write; never overwritten.")] = Path("experiment.yaml"),
    name: Annotated[str | None, typer.Option(help="The campaign's name; by default the directory's.")] = None,
    tasks: Annotated[Path | None, typer.Option(help="One directory per task, Harbor's layout.")] = None,
    gpus: Annotated[int | None, typer.Option(help="GPUs of the cluster; 0 trains a tiny model here.")] = None,
    gpu_kind: Annotated[str | None, typer.Option(help="A hardware preset, such as h200.")] = None,
    model: Annotated[str | None, typer.Option(help="A model preset, such as qwen3-8b.")] = None,
    algorithm: Annotated[str | None, typer.Option(help="grpo or ppo; without GPUs always ppo.")] = None,
    pool: Annotated[list[str], typer.Option(metavar="URL", help="A pool server; may repeat.")] = [],  # noqa: B006
    weights: Annotated[str | None, typer.Option(help="Hugging Face directory, as the nodes see it.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing; what is not given is proposed.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Write the first spec of a campaign: by asking at a terminal, else from these options."""
    from t1cli.cli.init_answers import Given, complete
    from t1cli.first_spec.propose import propose, refuse_existing, write
    from t1cli.ui.init_dialogue import can_ask, print_written
    from t1cli.ui.json_view import print_object
    from t1cli.ui.search_progress import search_progress

    refuse_existing(output)
    given = Given(name, tasks, gpus, gpu_kind, model, algorithm, tuple(pool), weights)
    answers = complete(given, output, asking=can_ask() and not yes and not json)
    with search_progress("layouts") as progress:
        proposal = propose(answers, output, progress)
    write(proposal, output)
    if json:
        print_object({"format_version": 1, "spec": str(output), "plan": proposal.plan.to_json()})
    else:
        print_written(proposal, str(output))
    return ExitCode.YES
