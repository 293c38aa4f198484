"""Every check of an argument list, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from t1cli.slime.arguments import changes, megatron, raises, silent
from t1cli.slime.arguments.problem import Problem, Rule
from t1cli.slime.arguments.read import Arguments
from t1cli.slime.arguments.roles import role_problems
from t1cli.slime.arguments.spelling import spelling_problems

_ORDER: Final = {"error": 0, "warning": 1, "notice": 2}


def check_arguments(arguments: Arguments, role_file: Mapping[str, Any] | None = None) -> tuple[Problem, ...]:
    """What slime would drop, refuse, change or trip over; errors first. Reads no file and asks no machine."""
    found = list(spelling_problems(arguments))
    for rule in _rules(arguments):
        found += rule.problems(arguments)
    if role_file is not None:
        found += role_problems(arguments, role_file)
    return tuple(sorted(dict.fromkeys(found), key=lambda problem: _ORDER[problem.severity]))


def _rules(arguments: Arguments) -> tuple[Rule, ...]:
    # Megatron's validation does not run where no trainer starts.
    training = () if arguments.on("debug_rollout_only") else megatron.RULES
    return (*raises.RULES, *training, *silent.RULES, *changes.RULES)
