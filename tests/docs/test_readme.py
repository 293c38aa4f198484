"""The README's table names every command there is."""

from __future__ import annotations

import re

import typer.main

from docs.site.pages import ROOT
from t1cli.cli.app import app

DEFAULT = "source"
"""The subcommand that `t1 watch RUN` is."""


def commands() -> set[str]:
    """Every command by its whole name."""
    group = typer.main.get_command(app)
    found = set()
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        for under in getattr(command, "commands", {DEFAULT: None}):
            found.add(name if under == DEFAULT else f"{name} {under}")
    return found


def named_in_the_table() -> set[str]:
    """`t1 tasks new` · `check` names two: what stands behind a dot goes by the words before."""
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Commands")[2].partition("\n\n`SPEC`")[0]
    found, parent = set(), ""
    for behind_dot, span in re.findall(r"(· )?`([^`]+)`", table):
        words = [word for word in span.split() if re.fullmatch(r"[a-z][a-z0-9-]*", word)]
        if words[:1] == ["t1"]:
            found.add(" ".join(words[1:]))
            parent = " ".join(words[1:-1])
        elif behind_dot and words:
            found.add(f"{parent} {words[0]}".strip())
    return found


def test_every_command_is_in_the_readmes_table_and_nothing_else_is() -> None:
    assert named_in_the_table() == commands()
