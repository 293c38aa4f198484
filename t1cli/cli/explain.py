"""`t1 explain ID …`: what a failure mode is, who catches it, and what to do."""

from __future__ import annotations

from typing import Annotated

import typer

from t1cli.errors import ExitCode


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Failure modes such as S4, or checks, rules and diagnoses by name."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Explain failure modes by ID, or list them. (`t1 plan SPEC --explain KEY` is about a value of a spec.)"""
    from t1cli.catalogue.entry import entries
    from t1cli.catalogue.explain import explain, to_json
    from t1cli.ui.explain_view import print_explained_modes, print_modes
    from t1cli.ui.json_view import print_object

    if json:
        print_object(to_json(explain(names or list(entries()))))
    elif names:
        print_explained_modes(explain(names))
    else:
        print_modes(entries().values())
    return ExitCode.YES
