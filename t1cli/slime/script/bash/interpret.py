"""An interpreter for a script file."""

from __future__ import annotations

from pathlib import Path

from t1cli.slime.script.bash.control import Control
from t1cli.slime.script.bash.state import State


def start(path: Path, state: State) -> Control:
    """What a script assigns and which commands it would run, in order; its own path is what `BASH_SOURCE` holds."""
    state.variables["BASH_SOURCE"], state.shown = str(path), path.name
    return Control(state)
