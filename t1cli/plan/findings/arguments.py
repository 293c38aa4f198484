"""What slime would drop, refuse, change or trip over in the arguments that the spec compiles to.

The only module of the plan that knows the slime room.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from t1cli.errors import BadInput
from t1cli.plan.draft import Draft
from t1cli.plan.plan import Finding
from t1cli.slime.arguments.problem import Problem
from t1cli.slime.compile.campaign import compile_campaign, key_of
from t1cli.slime.compile.places import unplaced

_SAID_ELSEWHERE: Final = frozenset({"C9", "M9", "T-world", "T-gpus", "T-ranks", "T-unsaved"})
_PLACEHOLDER: Final = re.compile(r"<[^<>]+>")


def argument_problems(draft: Draft) -> Iterator[Finding]:
    """Every problem of the compiled arguments, at the key or the `slime_args` entry that causes it."""
    engine = draft.spec.engine
    if engine.kind != "slime":
        return
    from_script = engine.from_script
    try:
        compiled = compile_campaign(draft.spec, unplaced(draft.spec))
    except BadInput as unknown:
        hint = unknown.diagnostics[0].hint
        yield draft.finding("T-version", "error", key="engine.version", message=unknown.message, fix=hint)
        return
    for problem in compiled.problems:
        if not _said_elsewhere(problem, draft) and (problem.id != "C2" or from_script):
            keys = _blanks(problem, draft)
            yield _blank(problem, keys, draft) if keys else _located(problem, draft)


def _located(problem: Problem, draft: Draft) -> Finding:
    flag = problem.flag.removeprefix("--")
    key = key_of(problem.flag) if problem.flag.startswith("--") else problem.flag
    where = f"slime_args.{flag}" if flag in draft.spec.slime_args else key
    return draft.finding(problem.id, problem.severity, key=where, message=problem.message, fix=problem.fix)


def _blanks(problem: Problem, draft: Draft) -> Sequence[str]:
    """Every key that holds the placeholder which a problem is about: all of them are to be filled in."""
    found = _PLACEHOLDER.search(problem.message) if problem.id == "T-blank" else None
    if found is None:
        return ()
    return [key for key, origin in draft.loaded.origins.items() if found.group() in str(origin.value)]


def _blank(problem: Problem, keys: Sequence[str], draft: Draft) -> Finding:
    """A placeholder at its first line; the others are named."""
    message, fix = problem.message, problem.fix
    if draft.spec.engine.kind == "slime" and not draft.spec.engine.from_script:
        message = f"{message.partition(' ')[0]} is a placeholder that nobody has filled in"
        fix = f"write it into the spec, or {' '.join(f'--set {key}=VALUE' for key in keys)}"
    message += _places(keys, draft)
    return draft.finding(problem.id, problem.severity, key=keys[0], message=message, fix=fix)


def _places(keys: Sequence[str], draft: Draft) -> str:
    """`; it stands in spec.yaml:3, 8, 12`, each line once; nothing for a single place."""
    places = dict.fromkeys(draft.loaded.where(key) for key in keys)
    if len(places) < 2:
        return ""
    lines: dict[str, list[str]] = {}
    for file, _, line in (place.rpartition(":") for place in places):
        lines.setdefault(file, []).append(line)
    told = (f"{file}{':' if file else ''}{', '.join(numbers)}" for file, numbers in lines.items())
    return f"; it stands in {' and '.join(told)}"


def _said_elsewhere(problem: Problem, draft: Draft) -> bool:
    """By other rules, from the spec and with more figures; M5 has the arithmetic of heads and axes."""
    heads = problem.id == "T-heads" and problem.flag == "--tensor-model-parallel-size" and draft.memory.impossible
    return problem.id in _SAID_ELSEWHERE or bool(heads)


RULES = (argument_problems,)
