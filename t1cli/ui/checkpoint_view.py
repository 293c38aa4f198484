"""What `t1 checkpoint` answers as text."""

from __future__ import annotations

import shlex

from t1cli.launch.slime.conversion import Conversion
from t1cli.ui.console import answer


def print_conversion(conversion: Conversion, *, ran: bool) -> None:
    """The command as a shell takes it, or where its result is."""
    console = answer()
    if ran:
        console.print(f"✓ {conversion.target}   from {conversion.source}")
        return
    for name, value in conversion.env.items():
        console.print(f"export {name}={shlex.quote(value)}", soft_wrap=True)
    console.print(shlex.join(conversion.argv), soft_wrap=True)
