"""Test leakage: tests, or what they expect, where the agent can read it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from t1cli.terminal.tasks.audit.checks import Check
from t1cli.terminal.tasks.audit.files import TaskFiles, squeezed
from t1cli.terminal.tasks.audit.finding import Finding

_COPIES_TESTS = re.compile(r"^\s*(?:COPY|ADD)\b[^\n]*?(?:^|[\s/\"'])tests?(?:/|[\s\"',\]]|$)", re.M | re.I)
_ANSWER_NAME = re.compile(r"expected|golden|answer|reference_output|ground_?truth", re.I)
_LEAST_CHARACTERS = 20
"""Shorter texts are alike by chance."""


def test_leakage(files: TaskFiles, checks: Sequence[Check]) -> Iterator[Finding]:
    """Test files in the environment, expected outputs in it, and lines of tests in the instruction."""
    yield from _copied(files)
    yield from _test_files(files)
    yield from _answers(files, checks)
    yield from _in_instruction(files, checks)


def _copied(files: TaskFiles) -> Iterator[Finding]:
    if any(name.startswith(("tests/", "test/")) for name in files.environment):
        return  # those of a program under work; what they hold is compared with the verifier's
    for name, text in files.environment.items():
        if name.rsplit("/", 1)[-1].startswith("Dockerfile") and (copy := _COPIES_TESTS.search(text)):
            message = f"environment/{name} puts the tests into the image: {copy[0].strip()}"
            yield Finding("test_leakage", "tests-in-image", message)


def _test_files(files: TaskFiles) -> Iterator[Finding]:
    own = {squeezed(text): name for name, text in files.tests.items() if len(squeezed(text)) >= _LEAST_CHARACTERS}
    for name, text in files.environment.items():
        leaked = next((test for body, test in own.items() if body in squeezed(text)), None)
        if leaked is None:
            continue
        is_code = leaked.endswith((".py", ".sh")) or _ANSWER_NAME.search(leaked) is not None
        message = f"environment/{name} holds tests/{leaked}"
        # Inputs may lie on both sides: a test that feeds the agent's program needs them.
        yield Finding("test_leakage", "test-file-in-environment", message, hard=is_code)


def _answers(files: TaskFiles, checks: Sequence[Check]) -> Iterator[Finding]:
    expected = {text.strip() for check in checks for a in check.assertions for text in a.equals if text.strip()}
    for name, text in files.environment.items():
        base = name.rsplit("/", 1)[-1]
        if _ANSWER_NAME.search(base) and text.strip() in expected and base not in files.instruction:
            message = f"environment/{name} holds what a test expects, word for word"
            yield Finding("test_leakage", "expected-output-in-environment", message)


def _in_instruction(files: TaskFiles, checks: Sequence[Check]) -> Iterator[Finding]:
    instruction = squeezed(files.instruction)
    for check in checks:
        for assertion in check.assertions:
            source = squeezed(assertion.source)
            if len(source) >= _LEAST_CHARACTERS and source in instruction:
                message = f"the instruction quotes {check.where}: {source[:80]}"
                yield Finding("test_leakage", "test-in-instruction", message)
                return
