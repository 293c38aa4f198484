"""A task's files in Harbor layout: task.toml, instruction.md, environment/, tests/, solution/."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from t1cli.terminal.tasks.verify_script import TEST_SH


@dataclass(frozen=True)
class HarborFiles:
    """What is written to a task directory."""

    name: str
    family: str
    difficulty: int
    instruction: str
    setup_files: Mapping[str, str]
    solution: tuple[str, ...]
    checks: tuple[tuple[str, tuple[str, ...]], ...]
    """Test name and the expressions it asserts."""
    declares_tests: bool = True
    """Whether task.toml says how many tests there are; a task that will be rewritten does not."""


def write_files(files: HarborFiles, path: Path) -> None:
    """Write the task to `path`, which must not exist yet."""
    path.mkdir(parents=True)
    _put(path / "task.toml", _task_toml(files))
    _put(path / "instruction.md", files.instruction)
    _put(path / "environment" / "Dockerfile", _dockerfile(bool(files.setup_files)))
    for name, content in sorted(files.setup_files.items()):
        _put(path / "environment" / "files" / name, content)
    _put(path / "tests" / "test.sh", TEST_SH, executable=True)
    _put(path / "tests" / "test_outputs.py", _test_outputs(files.checks))
    _put(path / "solution" / "solve.sh", "#!/bin/sh\nset -e\n" + "\n".join(files.solution) + "\n", executable=True)


def _put(path: Path, content: str, *, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    path.chmod(0o755 if executable else 0o644)


def _task_toml(files: HarborFiles) -> str:
    declared = f"expected_tests = {len(files.checks)}\n" if files.declares_tests else ""
    return f"""\
version = "1.0"

[task]
name = {json.dumps(f"t1/{files.name}")}

[metadata]
family = {json.dumps(files.family)}
difficulty = {json.dumps(str(files.difficulty))}
{declared}
[agent]
timeout_sec = 60.0

[verifier]
timeout_sec = 60.0

[environment]
network_mode = "no-network"
workdir = "/work"
"""


def _dockerfile(has_files: bool) -> str:
    lines = ["FROM python:3.11-slim", "RUN pip install pytest==8.4.1 pytest-json-ctrf==0.6.1", "WORKDIR /work"]
    return "\n".join([*lines, "COPY files/ /work/"] if has_files else lines) + "\n"


_TEST_HEAD = '''\
import os
import stat
from pathlib import Path

WORK = Path(os.environ.get("T1_ROOT", "") + "/work")


def text(name):
    """The start of a regular file; nothing else is opened, so that a pipe or a device cannot hold the test up."""
    path = WORK / name
    assert path.is_file(), f"{name} is no file"
    with path.open("rb") as file:
        return file.read(65536).decode(errors="replace")


def mode(name):
    return format(stat.S_IMODE((WORK / name).stat().st_mode), "o")


def is_directory(name):
    return (WORK / name).is_dir()


def is_absent(name):
    return not os.path.lexists(WORK / name)
'''


def _test_outputs(checks: tuple[tuple[str, tuple[str, ...]], ...]) -> str:
    tests = (
        f"\n\ndef test_{name}():\n" + "".join(f"    assert {expression}\n" for expression in asserts)
        for name, asserts in checks
    )
    return _TEST_HEAD + "".join(tests)
