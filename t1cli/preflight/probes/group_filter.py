"""A filter of groups on a node: imported in a process of its own, since it may bring a training framework along."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from t1cli.preflight.probes.programs import ask_program

SECONDS = 50.0
_PROGRAM = (
    "import sys; sys.path[:0] = sys.argv[2:]\n"
    "from t1cli.terminal.rollout.group_filter import group_filter, neutral_samples\n"
    "group_filter(sys.argv[1], samples_of=neutral_samples)\n"
)


def importable(path: str, paths: Sequence[str]) -> str:
    """Why the function behind a dotted path cannot be used here, with `paths` looked at first; empty when it can."""
    return ask_program([sys.executable, "-P", "-c", _PROGRAM, path, *paths], seconds=SECONDS).problem
