"""The typer app and its commands. Only light modules are imported here, so that help is instant."""

from __future__ import annotations

import importlib
import os

import typer

from t1cli import __version__
from t1cli.cli.boundary import guarded
from t1cli.ui.streams import prepare_streams

app = typer.Typer(
    name="t1",
    help="Plan, preflight, launch and watch terminal-agent RL campaigns on slime, from one YAML file.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

# Each module under t1cli/cli has `command` (a function) or `group` (a typer app of subcommands).
# Heavy imports (torch, ray, numpy, wandb) happen inside the function that needs them.
COMMANDS: tuple[str, ...] = (
    "init",
    "plan",
    "preflight",
    "launch",
    "watch",
    "report",
    "audit",
    "runs",
    "status",
    "logs",
    "diff",
    "eval",
    "explain",
    "schema",
    "pool",
    "rescore",
    "tasks",
    "convert",
    "checkpoint",
    "calibrate",
    "pretrain-value",
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"t1 {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Print the version."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Show tracebacks of errors."),
) -> None:
    """Plan, preflight, launch and watch terminal-agent RL campaigns on slime, from one YAML file."""
    if verbose:
        os.environ["T1_VERBOSE"] = "1"


def _register(name: str) -> None:
    module = importlib.import_module(f"t1cli.cli.{name.replace('-', '_')}")
    if hasattr(module, "group"):
        app.add_typer(module.group, name=name)
    else:
        app.command(name)(guarded(module.command))


for _name in COMMANDS:
    _register(_name)


def main() -> None:
    """The `t1` script."""
    prepare_streams()
    app()
