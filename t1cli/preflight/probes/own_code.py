"""The user's own functions on a node: imported there, because nothing else shows that its trials can.

In a process of its own, since the code may print, hang, exit or bring a training framework along.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence

from t1cli.errors import Refused
from t1cli.preflight.probes.programs import ask_program

SECONDS = 50.0
_NO_ANSWER = "its import ended the process and said nothing"
# What the code prints goes to stderr: stdout is for the answer alone. Then the process ends, whatever the code left.
_PROGRAM = """
import json, os, sys
answers = os.dup(1)
os.dup2(2, 1)
sys.path[:0] = sys.argv[3:]
from t1cli.preflight.probes.own_code import told_here
os.write(answers, json.dumps(told_here(sys.argv[1], sys.argv[2])).encode())
os._exit(0)
"""


def text_harness(path: str) -> dict[str, str]:
    """`problem` and `hint`, both empty when `module:function` can be called as a text harness on this node."""
    return _told_apart("harness", path, sys.path)


def group_filter(path: str, paths: Sequence[str]) -> dict[str, str]:
    """The same of a function that filters groups, with `paths` looked at first."""
    return _told_apart("filter", path, paths)


def told_here(kind: str, path: str) -> dict[str, str]:
    """The answer, in the process that is for it."""
    try:
        _LOADS[kind](path)
    except Refused as refused:
        first = refused.diagnostics[0]
        return {"problem": first.message, "hint": first.hint}
    except BaseException as error:  # a process of its own: nobody else is meant by what it raises
        return {"problem": f"importing {path} raised {type(error).__name__}: {error}", "hint": ""}
    return {"problem": "", "hint": ""}


def _told_apart(kind: str, path: str, paths: Sequence[str]) -> dict[str, str]:
    said = ask_program([sys.executable, "-P", "-c", _PROGRAM, kind, path, *paths], seconds=SECONDS)
    try:
        found = json.loads(said.output)
        return {"problem": str(found["problem"]), "hint": str(found["hint"])}
    except (ValueError, KeyError, TypeError):
        return {"problem": f"{path}: {said.problem or _NO_ANSWER}", "hint": ""}


def _load_harness(path: str) -> None:
    from t1cli.terminal.harness.load_harness import load_harness

    load_harness(path)


def _load_filter(path: str) -> None:
    from t1cli.terminal.rollout.group_filter import group_filter, neutral_samples

    group_filter(path, samples_of=neutral_samples)


_LOADS: Mapping[str, Callable[[str], None]] = {"harness": _load_harness, "filter": _load_filter}
