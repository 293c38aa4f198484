"""terminal-bench's layout (task.yaml, run-tests.sh, solution.sh) as Harbor's."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from t1cli.errors import BadInput, Diagnostic
from t1cli.records import number_in
from t1cli.terminal.tasks.older_layout import NO_CONTEXT, OlderTask, copy_files, read_older

_AGENT_SECONDS, _TEST_SECONDS = 360.0, 60.0
"""terminal-bench's defaults."""

# run-tests.sh ends with its last command's status. Its printed summary decides too, because a script that goes on after
# pytest hides a failure in its status.
TEST_SH = """\
#!/bin/bash
logs="${T1_ROOT:-}/logs/verifier"
mkdir -p "$logs"
export TEST_DIR="${T1_ROOT:-}/tests"
cd "${T1_ROOT:-}/work" 2>/dev/null || cd /
bash "$TEST_DIR/run-tests.sh" > "$logs/run-tests.txt" 2>&1
code=$?
cat "$logs/run-tests.txt"
if [ "$code" -eq 0 ] && ! grep -Eq '^(FAILED|ERROR) ' "$logs/run-tests.txt"; then
  echo 1 > "$logs/reward.txt"
else
  echo 0 > "$logs/reward.txt"
fi
"""


@dataclass(frozen=True)
class Converted:
    """One task that was converted, and what somebody should look at."""

    name: str
    notes: tuple[str, ...] = ()


def convert_pool(source: Path, target: Path) -> tuple[Converted, ...]:
    """Convert every task below `source` into `target`, which must not exist. Raises BadInput with all problems."""
    directories = (
        sorted(entry for entry in source.iterdir() if (entry / "task.yaml").is_file()) if source.is_dir() else []
    )
    if not directories:
        raise BadInput(f"no task.yaml below {source}", where=str(source), hint="one directory per task")
    if target.exists():
        raise BadInput(f"{target} exists", where=str(target), hint="name a directory that does not exist yet")
    problems: list[Diagnostic] = []
    read: list[OlderTask] = []
    for directory in directories:
        try:
            read.append(read_older(directory))
        except BadInput as error:
            problems += error.diagnostics
    if problems:
        raise BadInput.many(tuple(problems))
    return _written(read, target)


def _written(tasks: list[OlderTask], target: Path) -> tuple[Converted, ...]:
    """All tasks, written aside and renamed into place: what fails in between leaves nothing that a next try meets."""
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.{os.getpid()}.partial")
    aside.mkdir()
    try:
        converted = tuple(_write(task, aside / task.directory.name) for task in tasks)
        aside.rename(target)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return converted


def _write(task: OlderTask, target: Path) -> Converted:
    target.mkdir()
    fields = task.fields
    (target / "instruction.md").write_text(_encodable(fields["instruction"]).rstrip() + "\n", encoding="utf-8")
    (target / "task.toml").write_text(_toml(task.directory.name, fields), encoding="utf-8")
    notes = [*_environment(task, target / "environment"), *_solution(task, target / "solution")]
    if (task.directory / "tests").is_dir():
        copy_files(task.directory / "tests", target / "tests")
    _put(target / "tests" / "run-tests.sh", (task.directory / "run-tests.sh").read_bytes())
    _put(target / "tests" / "test.sh", TEST_SH.encode(), executable=True)
    if fields.get("parser_name", "pytest") != "pytest":
        notes.append(f"parser {fields['parser_name']}: only the status of run-tests.sh decides")
    return Converted(task.directory.name, tuple(notes))


def _put(path: Path, content: bytes, *, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755 if executable else 0o644)


def _encodable(text: str) -> str:
    """YAML's escapes can write half a character, which no file can hold."""
    return text.encode("utf-8", "replace").decode()


def _toml(name: str, fields: Mapping[str, Any]) -> str:
    def seconds(key: str, default: float) -> float:
        return number_in(fields.get(key), default)

    def word(key: str, default: str) -> str:
        value = fields.get(key, default)
        return _encodable(str(value)) if isinstance(value, str | int | float) else default

    tags = fields.get("tags")
    tags = (
        [_encodable(str(tag)) for tag in tags if isinstance(tag, str | int | float)] if isinstance(tags, list) else []
    )
    return f"""\
version = "1.0"

[metadata]
name = {json.dumps(name)}
category = {json.dumps(word("category", "none"))}
difficulty = {json.dumps(word("difficulty", "unknown"))}
tags = {json.dumps(tags)}

[agent]
timeout_sec = {seconds("max_agent_timeout_sec", _AGENT_SECONDS)}

[verifier]
timeout_sec = {seconds("max_test_timeout_sec", _TEST_SECONDS)}
"""


def _environment(task: OlderTask, target: Path) -> list[str]:
    """The build context; Harbor's main service is `main` where terminal-bench's is `client`."""
    copy_files(task.directory, target, skip=NO_CONTEXT.__contains__)
    if not task.compose or (task.services == {"client"} and (target / "Dockerfile").is_file()):
        return []
    text = re.sub(r"(?m)^(\s+)client:", r"\1main:", task.compose)
    (target / "docker-compose.yaml").write_text(text, encoding="utf-8")
    return [f"a compose file with {len(task.services)} services: process sandboxes cannot run it"]


def _solution(task: OlderTask, target: Path) -> list[str]:
    script = task.directory / "solution.sh"
    if script.is_file():
        _put(target / "solve.sh", script.read_bytes(), executable=True)
        return []
    if task.typed is not None:
        lines = "".join(f"{command}\n" for command in task.typed)
        _put(target / "solve.sh", f"#!/bin/sh\n{_encodable(lines)}".encode(), executable=True)
        return ["solution.yaml typed its commands into a terminal; as a script they may behave differently"]
    return ["no solution: it cannot be checked by its oracle"]
