"""Reading tasks in Harbor layout; every problem of a pool is reported at once, with file and line."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path

from t1cli.errors import BadInput, Diagnostic
from t1cli.terminal.tasks.task import Task

MAX_TOML_BYTES = 256 * 1024
MAX_INSTRUCTION_BYTES = 256 * 1024
MAX_FILES_BYTES = 64 * 1024 * 1024
MAX_FILES = 2000

PARTS = ("tests", "solution", "environment")
"""Directories of a task that are copied into sandboxes; each within the limits above."""

DEFAULT_VERIFIER_SECONDS = 600.0
"""Harbor's default."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_DEEP_KEY = re.compile(r"(?<![\w\"'-])(?:[\w\"'-]++[ \t]*+\.[ \t]*+){32}")
"""Python's TOML reader takes time that grows with the square of a key's parts."""
_TOML_LINE = re.compile(r"line (\d+)")


def load_pool(path: Path, *, layout: str = "harbor", families: Collection[str] = ()) -> tuple[Task, ...]:
    """All tasks of a pool by name, or those of some families. Raises BadInput with the problems of all tasks."""
    if layout != "harbor":
        raise BadInput(
            f"a pool in layout {layout!r} is converted before it is used",
            where="tasks.layout",
            hint=f"t1 tasks convert {path} {path}-harbor, then tasks.path={path}-harbor",
        )
    if not path.is_dir():
        raise BadInput(f"{path} is no directory", where="tasks.path", hint="a directory with one directory per task")
    directories = sorted(entry for entry in path.iterdir() if (entry / "task.toml").exists())
    if not directories:
        raise BadInput(f"no task in {path}", where=str(path), hint="each task is a directory with a task.toml")
    tasks: list[Task] = []
    problems: list[Diagnostic] = []
    for directory in directories:
        try:
            tasks.append(load_task(directory))
        except BadInput as error:
            problems += error.diagnostics
    problems += _named_twice(tasks)
    if problems:
        raise BadInput.many(tuple(problems))
    return _of_families(tasks, families, path)


def is_task_name(name: str) -> bool:
    """Whether a task's directory may be called that."""
    return _NAME.fullmatch(name) is not None


def load_task(path: Path) -> Task:
    """One task directory in Harbor layout. Raises BadInput with all of its problems."""
    reader = _TaskReader(path.resolve())
    task = reader.read()
    if reader.problems:
        raise BadInput.many(tuple(reader.problems))
    return task


def _named_twice(tasks: list[Task]) -> list[Diagnostic]:
    """Links can give one task to a pool twice; trials are told apart by the task's name."""
    first: dict[str, Path] = {}
    found = []
    for task in tasks:
        if task.name in first:
            hint = f"expected one task of that name; the other is {first[task.name]}"
            found.append(Diagnostic(f"a second task {task.name}", str(task.path), hint=hint))
        first.setdefault(task.name, task.path)
    return found


def _of_families(tasks: list[Task], families: Collection[str], path: Path) -> tuple[Task, ...]:
    if not families:
        return tuple(tasks)
    present = {task.family for task in tasks}
    unknown = sorted(set(families) - present)
    if unknown:
        hint = f"the pool has {', '.join(sorted(present))}"
        raise BadInput(f"no task of family {', '.join(unknown)} in {path}", where="tasks.families", hint=hint)
    return tuple(task for task in tasks if task.family in families)


class _TaskReader:
    """Reads one directory and collects what is wrong with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Diagnostic] = []
        self._toml_path = path / "task.toml"
        self._lines: list[str] = []

    def read(self) -> Task:
        if not is_task_name(self.path.name):
            self._problem(self.path, f"task name {self.path.name!r}", "letters, digits, dots, dashes, underscores")
        config = self._toml()
        metadata = self._section(config, "metadata")
        self._refuse(config)
        self._require(self.path / "tests" / "test.sh")
        for part in PARTS:
            self._check_files(self.path / part)
        environment = self.path / "environment" / "files"
        return Task(
            name=self.path.name,
            path=self.path,
            instruction=self._instruction(),
            family=_text(metadata, "family", "category") or "none",
            difficulty=_text(metadata, "difficulty") or "unknown",
            agent_timeout_seconds=self._seconds(config, "agent", None),
            verifier_timeout_seconds=self._seconds(config, "verifier", DEFAULT_VERIFIER_SECONDS)
            or DEFAULT_VERIFIER_SECONDS,
            expected_tests=self._expected_tests(metadata),
            environment=environment if environment.is_dir() else None,
            metadata={name: str(value) for name, value in metadata.items() if isinstance(value, str | int | float)},
        )

    def _toml(self) -> dict[str, object]:
        content = self._content(self._toml_path, MAX_TOML_BYTES)
        self._lines = content.splitlines()
        if deep := _DEEP_KEY.search(content):
            line_number = content.count("\n", 0, deep.start()) + 1
            self._problem(self._toml_path, "a key of very many parts", "keys of a few", line=line_number)
            return {}
        try:
            return tomllib.loads(content)
        except (ValueError, RecursionError) as error:  # a number of thousands of digits is a mere ValueError
            line = _TOML_LINE.search(str(error))
            self._problem(self._toml_path, f"not TOML: {error}", "", line=int(line[1]) if line else None)
            return {}

    def _instruction(self) -> str:
        path = self.path / "instruction.md"
        if (self.path / "steps").is_dir() and not path.exists():
            self._problem(self.path / "steps", "a task of several steps", "one instruction.md")
            return ""
        text = self._content(path, MAX_INSTRUCTION_BYTES)
        if path.is_file() and not text.strip():
            self._problem(path, "an empty instruction", "what the agent is asked to do")
        return text

    def _content(self, path: Path, max_bytes: int) -> str:
        if not self._require(path):
            return ""
        if path.stat().st_size > max_bytes:
            self._problem(path, f"{path.stat().st_size} bytes", f"at most {max_bytes}")
            return ""
        try:
            # Editors on Windows begin a file with a byte order mark.
            return path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            self._problem(path, f"cannot be read: {error}", "UTF-8 text")
            return ""

    def _require(self, path: Path) -> bool:
        if path.is_file() and self._is_inside(path):
            return True
        found = "leads out of the task" if path.is_symlink() else "is missing"
        self._problem(path, f"{path.name} {found}", "a regular file")
        return False

    def _check_files(self, directory: Path) -> None:
        """Everything below is a directory, a regular file or a link within the task, and not too much of it."""
        if not directory.is_dir():
            return
        if not self._is_inside(directory):
            return self._problem(directory, "a link that leads out of the task", "files of the task only")
        try:
            for path, mode, _ in few_entries(directory):
                if stat.S_ISLNK(mode) and not self._is_inside(path):
                    self._problem(path, "a link that leads out of the task", "files of the task only")
                elif not (stat.S_ISLNK(mode) or stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    self._problem(path, "a pipe, socket or device", "regular files: nothing else can be copied")
        except BadInput as error:
            self.problems += error.diagnostics
        except OSError as error:
            self._problem(directory, f"cannot be read: {error.strerror}", "files that this user may read")

    def _is_inside(self, path: Path) -> bool:
        try:
            return path.resolve().is_relative_to(self.path)
        except (OSError, RuntimeError):  # a link that leads to itself
            return False

    def _section(self, config: dict[str, object], name: str) -> dict[str, object]:
        section = config.get(name, {})
        if isinstance(section, dict):
            return section
        self._toml_problem(name, f"{name} is {section!r}", f"a table [{name}]")
        return {}

    def _seconds(self, config: dict[str, object], section: str, default: float | None) -> float | None:
        value = self._section(config, section).get("timeout_sec", default)
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9):
            return None if value is None else float(value)
        self._toml_problem("timeout_sec", f"{section}.timeout_sec is {value!r}", "seconds above 0", section)
        return default

    def _expected_tests(self, metadata: dict[str, object]) -> int | None:
        value = metadata.get("expected_tests")
        if value is None or (type(value) is int and 0 < value < 100_000):
            return value
        self._toml_problem("expected_tests", f"expected_tests is {value!r}", "a whole number above 0", "metadata")
        return None

    def _refuse(self, config: dict[str, object]) -> None:
        if config.get("steps"):
            self._toml_problem("steps", "a task of several steps", "one instruction.md and one tests/")

    def _toml_problem(self, key: str, found: str, expected: str, section: str = "") -> None:
        self._problem(self._toml_path, found, expected, line=self._line_of(key, section))

    def _line_of(self, key: str, section: str) -> int | None:
        inside = not section
        for number, line in enumerate(self._lines, 1):
            if line.lstrip().startswith("["):
                inside = line.strip().strip("[]").strip() in (section, key)
            if inside and re.match(rf"\s*\[*\s*\"?{re.escape(key)}\b", line):
                return number
        return None

    def _problem(self, path: Path, found: str, expected: str, line: int | None = None) -> None:
        where = str(path) if line is None else f"{path}:{line}"
        source = self._lines[line - 1] if line is not None and 0 < line <= len(self._lines) else ""
        hint = f"expected {expected}" if expected else ""
        self.problems.append(Diagnostic(found, where, source, hint))


def few_entries(directory: Path) -> Iterator[tuple[Path, int, int]]:
    """As `entries`. Raises BadInput once there are more than a part of a task may have."""
    size = count = 0
    for path, mode, size_bytes in entries(directory):
        count, size = count + 1, size + size_bytes
        if size > MAX_FILES_BYTES or count > MAX_FILES:
            hint = f"expected at most {MAX_FILES} files and {MAX_FILES_BYTES} bytes"
            raise BadInput(f"at least {count} files, {size} bytes", where=str(directory), hint=hint)
        yield path, mode, size_bytes


def entries(directory: Path) -> Iterator[tuple[Path, int, int]]:
    """Path, mode and size of everything below a directory; links are not followed."""
    for parent, directories, files in os.walk(directory, onerror=_raise):
        for name in (*directories, *files):
            path = Path(parent, name)
            found = path.lstat()
            yield path, found.st_mode, found.st_size if stat.S_ISREG(found.st_mode) else 0


def _raise(error: OSError) -> None:
    raise error


def _text(metadata: dict[str, object], *names: str) -> str:
    for name in names:
        value = metadata.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool):
            return str(value)
    return ""
