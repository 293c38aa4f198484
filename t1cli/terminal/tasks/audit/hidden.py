"""Hidden requirements: what the tests demand and the agent cannot have read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from t1cli.terminal.tasks.audit.checks import Check
from t1cli.terminal.tasks.audit.files import TaskFiles, words_of
from t1cli.terminal.tasks.audit.finding import Finding
from t1cli.terminal.tasks.audit.shortcuts import echoed

_OUR_OWN = ("/tests", "/logs", "/tmp", "/usr", "/bin", "/proc", "/dev")
_COMMON = frozenset(("utf", "ascii", "python", "python3", "bash", "work", "app", "t1", "root", "t1_root", "home"))
"""Words of a path or a call that ask nothing of the agent."""


def hidden_requirements(files: TaskFiles, checks: Sequence[Check]) -> Iterator[Finding]:
    """Literals that a check demands and neither instruction nor environment names.

    Hard when the task's own solution has them too: then tests and solution share a secret. Otherwise it is a doubt: the
    text may follow from the data.
    """
    solution = frozenset(words_of(files.solution_text))
    written = {line for text in files.solution.values() for line in echoed(text)}
    for literal, where in unnamed(files, checks).items():
        words = _asking(literal)
        if literal.strip() in written:
            continue  # an answer that the solution writes down is a shortcut, and named as one
        if any(word in solution for word in words if word not in files.known_words):
            message = f"{where} demands {literal!r}, which only the solution knows"
            yield Finding("hidden_requirements", "unnamed-literal", message)
        else:
            message = f"{where} demands {literal!r}, which neither instruction nor environment names"
            yield Finding("hidden_requirements", "unexplained-literal", message, hard=False)


def unnamed(files: TaskFiles, checks: Sequence[Check]) -> dict[str, str]:
    """Demanded literals with a word that the agent cannot have read, and the check that demands each."""
    known = files.known_words
    found: dict[str, str] = {}
    for literal, where in demanded(checks):
        if any(word not in known for word in _asking(literal)):
            found.setdefault(literal, where)
    return found


def demanded(checks: Sequence[Check]) -> Iterator[tuple[str, str]]:
    """Every literal of every check, with the check's place."""
    for check in checks:
        for assertion in check.assertions:
            for literal in assertion.strings:
                if _asking(literal) and not literal.startswith(_OUR_OWN):
                    yield literal, check.where


def _asking(literal: str) -> list[str]:
    return [word for word in words_of(literal) if word not in _COMMON]
