"""The `t1` script: an interruption is an answer from the first moment on, even while the commands are imported."""

from __future__ import annotations

from t1cli.cli.interruption import leave_at_once


def main() -> None:
    """Run the command line."""
    leave_at_once()
    from t1cli.cli.app import main as run

    run()
