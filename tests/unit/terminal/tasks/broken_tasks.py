"""A dozen and more ways in which a task is broken, and what a check must call each."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

OWN_TEST_SH = '#!/bin/sh\nmkdir -p "${T1_ROOT:-}/logs/verifier"\n'
REPORT = '{"results": {"summary": {"start": %s}, "tests": [{"name": "a", "status": "passed"}]}}'


def edit(name: str, change: Callable[[str], str]) -> Callable[[Path], object]:
    return lambda task: (task / name).write_text(change((task / name).read_text()))


def own_script(*lines: str) -> Callable[[Path], object]:
    return edit("tests/test.sh", lambda _: OWN_TEST_SH + "\n".join(lines) + "\n")


def logs(line: str) -> str:
    return f'{line} > "${{T1_ROOT:-}}/logs/verifier/'


SOLVED = logs('test -e "${T1_ROOT:-}/solution"; echo $((1 - $?))') + 'reward.txt"'

# What is broken -> the kind that the check must name, and how it is broken.
BROKEN: dict[str, tuple[str, Callable[[Path], object]]] = {
    "no-test-script": ("layout", lambda task: (task / "tests" / "test.sh").unlink()),
    "no-toml": ("layout", edit("task.toml", lambda _: "[agent\n")),
    "empty-instruction": ("layout", edit("instruction.md", lambda _: "\n")),
    "link-out": ("layout", lambda task: (task / "tests" / "link").symlink_to("/etc/passwd")),
    "no-solution": ("no-oracle", lambda task: shutil.rmtree(task / "solution")),
    "wrong-solution": ("oracle-fails", edit("solution/solve.sh", lambda _: "#!/bin/sh\ntrue\n")),
    "failing-solution": ("oracle-fails", edit("solution/solve.sh", lambda _: "#!/bin/sh\nexit 3\n")),
    "too-easy": ("no-op-full", edit("tests/test_outputs.py", lambda _: "def test_a(): pass\n")),
    "no-report": ("ctrf-missing", own_script(SOLVED)),
    "old-report": ("ctrf-stale", own_script(logs(f"echo '{REPORT % 1000000000}'") + 'ctrf.json"', SOLVED)),
    "collection-error": ("reward-missing", edit("tests/test_outputs.py", lambda text: text + "\nimport nowhere\n")),
    "empty-report": ("ctrf-empty", own_script(logs('echo \'{"results": {"tests": []}}\'') + 'ctrf.json"', SOLVED)),
    "online": (
        "verifier-online",
        edit("tests/test.sh", lambda text: text.replace("code=$?", "code=$?\npip install x", 1)),
    ),
    "errexit": ("reward-line", edit("tests/test.sh", lambda text: text.replace("#!/bin/sh", "#!/bin/sh\nset -eu", 1))),
    "hangs": ("verifier-timeout", own_script("sleep 60", logs("echo 1") + 'reward.txt"')),
    "wrong-count": (
        "test-count",
        edit("task.toml", lambda text: text.replace("expected_tests = ", "expected_tests = 9")),
    ),
}


def break_task(task: Path, name: str) -> None:
    """Break the task at `task` in one way; its verifier gets a time limit that a hanging one uses up soon."""
    toml = task / "task.toml"
    if name == "hangs":
        toml.write_text(toml.read_text().replace("timeout_sec = 60.0", "timeout_sec = 4.0"))
    BROKEN[name][1](task)
