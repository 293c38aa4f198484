"""A group of subcommands whose first argument may also be what one hidden default command takes."""

from __future__ import annotations

from typing import ClassVar

from typer.core import TyperGroup


class DefaultCommandGroup(TyperGroup):
    """`t1 watch lint FILE` runs `lint`; `t1 watch SOURCE` and `t1 watch --help` go to the default command.

    A source with the name of a subcommand is reached by a path, such as `./runs/lint`.
    """

    default_command: ClassVar[str] = "source"

    def parse_args(self, ctx, args):  # type: ignore[no-untyped-def]  # typer's context type is private
        """Put the default command's name in front of arguments that do not begin with a subcommand."""
        if not args or args[0] not in self.commands:
            args = [self.default_command, *(args or ["--help"])]
        return super().parse_args(ctx, args)
