"""`slime_args`: arguments without a field, checked against the version's table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from t1cli.slime.arguments.problem import Problem
from t1cli.slime.arguments.table import Table
from t1cli.slime.compile.row import Pair, text
from t1cli.slime.compile.table import OWNER
from t1cli.spec.experiment import ExperimentSpec

OWNED_ID: Final = "T-owned"


def escaped_pairs(spec: ExperimentSpec) -> Sequence[Pair]:
    """`slime_args` as arguments: true is a switch, a list is several words, a mapping is JSON."""
    return [(f"--{name.removeprefix('--')}", _words(value)) for name, value in spec.slime_args.items()]


def escape_problems(spec: ExperimentSpec, table: Table, given: Sequence[Pair]) -> Iterator[Problem]:
    """Arguments that t1 gives itself, and values that are no argument; unknown flags are found with all others."""
    engine = spec.engine
    from_script = engine.kind == "slime" and engine.from_script
    taken = {flag for flag, _ in given}
    for name, value in spec.slime_args.items():
        flag = f"--{name.removeprefix('--')}"
        argument = table.find(flag)
        canonical = argument.flag if argument is not None else flag
        if canonical in taken or (canonical in OWNER and not from_script):
            key = OWNER.get(canonical, "engine.kind")
            yield Problem(OWNED_ID, "error", flag, f"{flag} is given by t1 itself, from `{key}`", f"set {key} instead")
        elif value is False or value is None:
            message = f"`{name}: {json.dumps(value)}` is no argument: a switch is given or left out"
            yield Problem("T-value", "error", flag, message, "leave it out")


def _words(value: Any) -> tuple[str, ...]:
    if value is True:
        return ()
    if isinstance(value, list | tuple):
        return tuple(text(item) for item in value)
    return (json.dumps(value),) if isinstance(value, dict) else (text(value),)
