"""terminal-bench's layout (task.yaml, run-tests.sh, solution.sh) as Harbor's."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from t1cli.errors import BadInput, Diagnostic

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
    read = {}
    for directory in directories:
        try:
            read[directory] = _read(directory)
        except BadInput as error:
            problems += error.diagnostics
    if problems:
        raise BadInput.many(tuple(problems))
    return tuple(_write(directory, target / directory.name, fields) for directory, fields in read.items())


def _read(directory: Path) -> dict[str, Any]:
    path = directory / "task.yaml"
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise BadInput(f"not YAML: {error}", where=str(path)) from error
    if not isinstance(found, dict) or not isinstance(found.get("instruction"), str):
        raise BadInput("no instruction", where=str(path), hint="task.yaml needs `instruction: …`")
    if not (directory / "run-tests.sh").is_file():
        raise BadInput("run-tests.sh is missing", where=str(directory))
    return found


def _write(source: Path, target: Path, fields: Mapping[str, Any]) -> Converted:
    target.mkdir(parents=True)
    (target / "instruction.md").write_text(fields["instruction"].rstrip() + "\n", encoding="utf-8")
    (target / "task.toml").write_text(_toml(source.name, fields), encoding="utf-8")
    notes = [*_environment(source, target / "environment"), *_solution(source, target / "solution")]
    tests = target / "tests"
    if (source / "tests").is_dir():
        shutil.copytree(source / "tests", tests)
    tests.mkdir(exist_ok=True)
    shutil.copyfile(source / "run-tests.sh", tests / "run-tests.sh")
    (tests / "test.sh").write_text(TEST_SH, encoding="utf-8")
    (tests / "test.sh").chmod(0o755)
    if fields.get("parser_name", "pytest") != "pytest":
        notes.append(f"parser {fields['parser_name']}: only the status of run-tests.sh decides")
    return Converted(source.name, tuple(notes))


def _toml(name: str, fields: Mapping[str, Any]) -> str:
    def seconds(key: str, default: float) -> float:
        value = fields.get(key, default)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default

    tags = [str(tag) for tag in fields.get("tags") or ()]
    return f"""\
version = "1.0"

[metadata]
name = {json.dumps(name)}
category = {json.dumps(str(fields.get("category", "none")))}
difficulty = {json.dumps(str(fields.get("difficulty", "unknown")))}
tags = {json.dumps(tags)}

[agent]
timeout_sec = {seconds("max_agent_timeout_sec", _AGENT_SECONDS)}

[verifier]
timeout_sec = {seconds("max_test_timeout_sec", _TEST_SECONDS)}
"""


def _environment(source: Path, target: Path) -> list[str]:
    """The build context; Harbor's main service is `main` where terminal-bench's is `client`."""
    skipped = {"task.yaml", "run-tests.sh", "solution.sh", "solution.yaml", "tests", "docker-compose.yaml"}
    target.mkdir()
    for entry in sorted(source.iterdir()):
        if entry.name in skipped or entry.is_symlink():
            continue
        (shutil.copytree if entry.is_dir() else shutil.copyfile)(entry, target / entry.name)
    compose = source / "docker-compose.yaml"
    if not compose.is_file():
        return []
    text = compose.read_text(encoding="utf-8")
    services = (yaml.safe_load(text) or {}).get("services") or {}
    if set(services) == {"client"} and (target / "Dockerfile").is_file():
        return []
    (target / "docker-compose.yaml").write_text(re.sub(r"(?m)^(\s+)client:", r"\1main:", text), encoding="utf-8")
    return [f"a compose file with {len(services)} services: process sandboxes cannot run it"]


def _solution(source: Path, target: Path) -> list[str]:
    script, commands = source / "solution.sh", source / "solution.yaml"
    if script.is_file():
        target.mkdir()
        shutil.copyfile(script, target / "solve.sh")
        (target / "solve.sh").chmod(0o755)
        return []
    if commands.is_file():
        steps = yaml.safe_load(commands.read_text(encoding="utf-8")) or []
        lines = [str(step["command"]) for step in steps if isinstance(step, dict) and "command" in step]
        target.mkdir()
        (target / "solve.sh").write_text("#!/bin/sh\n" + "\n".join(lines) + "\n", encoding="utf-8")
        (target / "solve.sh").chmod(0o755)
        return ["solution.yaml typed its commands into a terminal; as a script they may behave differently"]
    return ["no solution: it cannot be checked by its oracle"]
