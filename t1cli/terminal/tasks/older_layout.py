"""Reading a task in terminal-bench's layout (task.yaml, run-tests.sh, solution.sh), whole before any is written."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from t1cli.errors import BadInput, Diagnostic
from t1cli.terminal.tasks.load import entries

MAX_YAML_BYTES: Final = 1024 * 1024
NO_CONTEXT: Final = frozenset(
    {"task.yaml", "run-tests.sh", "solution.sh", "solution.yaml", "tests", "docker-compose.yaml"}
)
"""What lies beside the build context and is no part of it."""


@dataclass(frozen=True)
class OlderTask:
    """One task as it was found."""

    directory: Path
    fields: Mapping[str, Any]
    """task.yaml; `instruction` is a text."""
    compose: str
    """Text of docker-compose.yaml; empty where there is none."""
    services: frozenset[str]
    typed: tuple[str, ...] | None
    """Commands of solution.yaml; None where there is none."""


def read_older(directory: Path) -> OlderTask:
    """One task directory. Raises BadInput with all of its problems."""
    problems: list[Diagnostic] = []
    fields = _mapping(directory / "task.yaml", problems)
    if fields is not None and not isinstance(fields.get("instruction"), str):
        hint = "task.yaml needs `instruction: …`"
        problems.append(Diagnostic("no instruction", str(directory / "task.yaml"), hint=hint))
    if not (directory / "run-tests.sh").is_file():
        problems.append(Diagnostic("run-tests.sh is missing", str(directory)))
    compose = _mapping(directory / "docker-compose.yaml", problems) or {}
    services = compose.get("services") or {}
    if not isinstance(services, dict):
        where = str(directory / "docker-compose.yaml")
        problems.append(Diagnostic(f"services is {str(services)[:40]!r}", where, hint="expected a mapping"))
    typed = _typed(directory / "solution.yaml", problems)
    problems += _uncopyable(directory)
    if problems:
        raise BadInput.many(tuple(problems))
    text = _text(directory / "docker-compose.yaml", problems) if compose else ""
    return OlderTask(directory, fields or {}, text or "", frozenset(map(str, services)), typed)


def _mapping(path: Path, problems: list[Diagnostic]) -> dict[str, Any] | None:
    found = _yaml(path, problems)
    if found is None or isinstance(found, dict):
        return found
    problems.append(
        Diagnostic(f"{type(found).__name__} at the top of {path.name}", str(path), hint="expected a mapping")
    )
    return None


def _typed(path: Path, problems: list[Diagnostic]) -> tuple[str, ...] | None:
    found = _yaml(path, problems)
    if found is None:
        return None
    if not isinstance(found, list):
        hint = "expected a list of `command: …`"
        problems.append(Diagnostic(f"{type(found).__name__} at the top of {path.name}", str(path), hint=hint))
        return None
    return tuple(str(step["command"]) for step in found if isinstance(step, dict) and "command" in step)


def _yaml(path: Path, problems: list[Diagnostic]) -> Any:
    """Plain data; None when the file is absent or empty, or (with a problem) cannot be read."""
    text = _text(path, problems)
    try:
        return yaml.safe_load(text) if text else None
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        problems.append(Diagnostic(f"not YAML: {error.problem}", f"{path}{line}"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problems.append(Diagnostic(f"not YAML: {str(error)[:200]}", str(path)))
    return None


def _text(path: Path, problems: list[Diagnostic]) -> str | None:
    if not path.is_file():  # a pipe would be waited for
        return None
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_YAML_BYTES + 1)
        if len(content) <= MAX_YAML_BYTES:
            return content.decode("utf-8-sig")
        problems.append(Diagnostic(f"more than {MAX_YAML_BYTES} bytes", str(path), hint="expected a few thousand"))
    except (OSError, UnicodeDecodeError) as error:
        problems.append(Diagnostic(f"cannot be read: {error}", str(path), hint="expected UTF-8 text"))
    return None


def _uncopyable(directory: Path) -> list[Diagnostic]:
    """What cannot become a file of the converted task: links out of it or to directories, and what is no file."""
    problems: list[Diagnostic] = []
    try:
        for path, mode, _ in entries(directory):
            if stat.S_ISLNK(mode) and (why := _wrong_link(path, directory)):
                problems.append(Diagnostic(why, str(path), hint="expected files of the task only"))
            elif not (stat.S_ISLNK(mode) or stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                hint = "expected regular files: nothing else can be copied"
                problems.append(Diagnostic("a pipe, socket or device", str(path), hint=hint))
    except OSError as error:
        problems.append(Diagnostic(f"cannot be read: {error.strerror}", error.filename or str(directory)))
    return problems


def _wrong_link(path: Path, directory: Path) -> str:
    try:
        if not path.resolve(strict=True).is_relative_to(directory.resolve()):
            return "a link that leads out of the task"
    except (OSError, RuntimeError):
        return "a link that leads nowhere"
    return "" if path.is_file() else "a link to a directory"


def copy_files(source: Path, target: Path, *, skip: Callable[[str], bool] = lambda name: False) -> None:
    """Copy directories and files with their modes; links become the files that they lead to. Raises OSError."""
    target.mkdir(parents=True, exist_ok=True)
    for path, mode, _ in entries(source):
        inside = path.relative_to(source)
        if skip(inside.parts[0]):
            continue
        if stat.S_ISDIR(mode):
            (target / inside).mkdir(parents=True, exist_ok=True)
        else:
            _copy_file(path, target / inside)


def _copy_file(source: Path, target: Path) -> None:
    with source.open("rb") as content, target.open("xb") as copy:
        while piece := content.read(1024 * 1024):
            copy.write(piece)
        os.fchmod(copy.fileno(), stat.S_IMODE(os.fstat(content.fileno()).st_mode) | stat.S_IWUSR)
