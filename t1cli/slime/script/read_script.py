"""A launch script as what it would submit: entry, argument list, environment, and what could not be known."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from t1cli.errors import BadInput
from t1cli.slime.script.bash.interpret import start
from t1cli.slime.script.bash.sourcing import MAX_BYTES, script_tree
from t1cli.slime.script.bash.state import Command, Note, State, TooMuch, Unknown, Word, shown, unknown_names
from t1cli.slime.script.bash.syntax import Source

ENTRIES: Final = ("train.py", "train_async.py")
_JOB_OPTIONS: Final = ("--address", "--runtime-env-json", "--runtime-env", "--submission-id", "--working-dir")


@dataclass(frozen=True)
class Submission:
    """What a script would start."""

    entry: str
    """`train.py` or `train_async.py`."""
    argv: tuple[Word, ...]
    """Arguments after the entry; unknown parts inside."""
    environment: Mapping[str, str]
    """The job's environment variables."""
    gpus_per_node: str
    """What `ray start --num-gpus` got; empty where the script starts no Ray."""
    where: str
    unknowns: tuple[Unknown, ...]
    """Values that the job needs and the script takes from outside, in order of use."""
    notes: tuple[Note, ...]
    exported: Mapping[str, str] = field(default_factory=dict)
    """What the script exports besides."""
    unread: tuple[str, ...] = ()
    """Overrides that the script never looks at."""
    overwritten: tuple[str, ...] = ()
    """Overrides that the script replaces by a value of its own."""
    read: tuple[str, ...] = ()
    """Every variable that the script looks at."""


@dataclass(frozen=True)
class NotRead:
    """A script from which nothing could be read, and why, by line."""

    reasons: tuple[Note, ...]


def read_script(
    path: Path, overrides: Mapping[str, str] | None = None, allowed: Sequence[Path] = ()
) -> Submission | NotRead:
    """Evaluate a script without running anything. Raises BadInput for a file that cannot be read."""
    if not path.is_file():
        raise BadInput(f"no script at {path}", str(path))
    if path.stat().st_size > MAX_BYTES:
        raise BadInput(f"{path} is larger than {MAX_BYTES:,} bytes", str(path))
    if path.suffix == ".py":
        reason = "a Python launcher: its arguments exist only while it runs. Convert the shell form, or write the spec"
        return NotRead((Note(str(path), reason),))
    here = path.resolve()
    state = State(dict(overrides or {}), script_tree(here), tuple(allowed), directory=str(here.parent))
    source = Source(here.read_text(encoding="utf-8", errors="replace"), shown=path.name)
    try:
        start(here, state).run(source)
    except (TooMuch, RecursionError) as error:
        reason = str(error) if isinstance(error, TooMuch) else "nested too deeply"
        return NotRead((Note(path.name, f"the evaluation was stopped: {reason}"),))
    return _submission(state, path)


def _submission(state: State, path: Path) -> Submission | NotRead:
    found = [(command, at) for command in state.commands if (at := _entry_index(command.words)) is not None]
    if len(found) == 1:
        return _built(state, *found[0])
    if found:
        reason = "the script submits more than one job; keep one of them"
        return NotRead(tuple(Note(command.where, reason) for command, _ in found))
    python = [c for c in state.commands if any(_is_python(w) for w in c.words) and _python_file(c.words)]
    if python:
        reason = (
            "starts the Python launcher {}; Python launchers are not read: their arguments exist only while they run"
        )
        return NotRead(tuple(Note(c.where, reason.format(shown(_python_file(c.words)))) for c in python))
    reason = "the script submits no job: no command runs train.py or train_async.py"
    return NotRead((*state.notes, Note(path.name, reason)))


def _built(state: State, command: Command, at: int) -> Submission:
    argv = command.words[at + 1 :]
    environment = {**_job_environment(command.words[:at], state, command.where), **command.environment}
    used = [name for text in (*argv, *environment.values()) for name in unknown_names(text)]
    return Submission(
        entry=posixpath.basename(command.words[at]),
        argv=argv,
        environment=environment,
        gpus_per_node=_ray_gpus(state),
        where=command.where,
        unknowns=tuple(state.unknowns[name] for name in dict.fromkeys(used) if name in state.unknowns),
        notes=tuple(state.notes),
        unread=tuple(name for name in state.overrides if name not in state.read | state.overwritten),
        read=tuple(sorted(state.read)),
        overwritten=tuple(name for name in state.overrides if name in state.overwritten),
        exported={name: state.variables[name] for name in sorted(state.exported) if name in state.variables},
    )


def _job_environment(words: Sequence[Word], state: State, where: str) -> dict[str, str]:
    text = _option(words, "--runtime-env-json")
    if not text:
        return {}
    try:
        content = json.loads(text)
        variables = content["env_vars"]
        return {str(name): str(value) for name, value in variables.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        names = ", ".join(unknown_names(text))
        why = f"it is the output of a command ({names})" if names else "it is no JSON object with env_vars"
        state.note(where, f"the job's environment could not be read: {why}")
        return {}


def _ray_gpus(state: State) -> str:
    for command in state.commands:
        if command.words[:2] == ("ray", "start"):
            return _option(command.words, "--num-gpus")
    return ""


def _option(words: Sequence[Word], name: str) -> str:
    for index, word in enumerate(words):
        if word.startswith(f"{name}="):
            return str(word.partition("=")[2])
        if word == name and index + 1 < len(words):
            return str(words[index + 1])
    return ""


def _entry_index(words: Sequence[Word]) -> int | None:
    for index, word in enumerate(words):
        before = words[max(0, index - 3) : index]
        if posixpath.basename(word) in ENTRIES and any(_is_python(w) for w in before):
            return index
    return None


def _is_python(word: str) -> bool:
    return posixpath.basename(word) in ("python", "python3") or posixpath.basename(word).startswith("python3.")


def _python_file(words: Sequence[Word]) -> str:
    return next((str(word) for word in words if word.endswith(".py")), "")
