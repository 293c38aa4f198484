"""Solution shortcuts: an oracle that knows the answer instead of finding it, or an environment that gives it away."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from t1cli.terminal.tasks.audit.checks import Check
from t1cli.terminal.tasks.audit.files import TaskFiles, squeezed, words_of
from t1cli.terminal.tasks.audit.finding import Finding

# A program under work may have a directory of tests of its own: only the verifier's counts, which lies at the root.
_READS_TESTS = re.compile(r"^(?!\s*#).*?(?:(?:(?<![\w./~}-])|T1_ROOT(?::-)?\}?)/tests/|\btest_outputs\.py\b)", re.M)
_WRITES_REWARD = re.compile(r"^(?!\s*#).*?(?:reward\.(?:txt|json)|ctrf\.json|/logs/verifier)", re.M)
_HERE_TEXT = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n(.*?)\n\1\s*$", re.M | re.S)
_LEAST_CHARACTERS = 20


def solution_shortcuts(files: TaskFiles, checks: Sequence[Check]) -> Iterator[Finding]:
    """Oracles that read the tests, write the reward, or write down an answer that nothing names."""
    for name, text in files.solution.items():
        for pattern, kind, said in (
            (_READS_TESTS, "oracle-reads-tests", "reads the tests"),
            (_WRITES_REWARD, "oracle-writes-reward", "writes the verifier's reward"),
        ):
            if found := pattern.search(text):
                yield Finding("solution_shortcuts", kind, f"solution/{name} {said}: {found[0].strip()[:80]}")
    yield from _copied_answers(files, checks)
    yield from _written_answers(files, checks)
    yield from _solution_in_environment(files)


def echoed(script: str) -> Iterator[str]:
    """Texts that a shell script writes as they stand: arguments of echo and printf, and here-documents."""
    for line in script.splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            continue
        if words[:1] in (["echo"], ["printf"]):
            kept = [word for word in words[1 : _redirect(words)] if word not in ("-n", "-e", "--")]
            yield " ".join(kept).replace("\\n", "\n").strip()
    for text in _HERE_TEXT.finditer(script):
        yield text[2].strip()


def _redirect(words: list[str]) -> int:
    return next((place for place, word in enumerate(words) if word.startswith((">", "|"))), len(words))


def _copied_answers(files: TaskFiles, checks: Sequence[Check]) -> Iterator[Finding]:
    expected = {squeezed(text): f"tests/{name}" for name, text in files.tests.items() if text.strip()}
    expected |= {squeezed(text): where for text, where in _expected(checks)}
    for name, text in files.solution.items():
        if not name.endswith((".sh", ".py")) and (where := expected.get(squeezed(text))):
            message = f"solution/{name} is what {where} expects, word for word"
            yield Finding("solution_shortcuts", "oracle-copies-expected", message)


def _written_answers(files: TaskFiles, checks: Sequence[Check]) -> Iterator[Finding]:
    written = {line: name for name, text in files.solution.items() for line in echoed(text)}
    for text, where in _expected(checks):
        if text in written and not _is_readable(text, files):
            message = f"solution/{written[text]} writes {text[:60]!r}, which {where} expects and nothing names"
            yield Finding("solution_shortcuts", "oracle-writes-answer", message)


def _is_readable(text: str, files: TaskFiles) -> bool:
    """Whether the agent can have read the text's words; short ones have to stand in the instruction by themselves."""
    words = words_of(text)
    if words:
        return all(word in files.known_words for word in words)
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", files.instruction) is not None


def _solution_in_environment(files: TaskFiles) -> Iterator[Finding]:
    scripts = {squeezed(text): name for name, text in files.solution.items()}
    for name, text in files.environment.items():
        body = squeezed(text)
        for script, own in scripts.items():
            if len(script) >= _LEAST_CHARACTERS and script in body:
                message = f"environment/{name} holds solution/{own}"
                yield Finding("solution_shortcuts", "solution-in-environment", message)


def _expected(checks: Sequence[Check]) -> Iterator[tuple[str, str]]:
    for check in checks:
        for assertion in check.assertions:
            for text in assertion.equals:
                if text.strip():
                    yield text.strip(), check.where
