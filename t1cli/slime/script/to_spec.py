"""A submission as an experiment: every argument in a field, in `slime_args`, or said why not.

The result is checked against the script: the spec is compiled, and what it would pass beyond the script is put into
`engine.leave_out`, what it would not pass into `slime_args`. So both argument lists are equal by construction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from t1cli.errors import T1Error
from t1cli.secret_names import names_a_secret
from t1cli.slime.arguments.read import Arguments, Given, Value, read, reading_problem
from t1cli.slime.arguments.spelling import SECRETS
from t1cli.slime.arguments.table import Table, load_table
from t1cli.slime.compile.campaign import campaign_pairs, flattened
from t1cli.slime.compile.decode import Comparable, canonical, comparable, decoded
from t1cli.slime.compile.escape import escaped_pairs
from t1cli.slime.compile.places import unplaced
from t1cli.slime.script.bash.state import Note, Unknown, shown, unknown_names
from t1cli.slime.script.fill import filled
from t1cli.slime.script.known_models import matching_preset
from t1cli.slime.script.read_script import NotRead, Submission
from t1cli.slime.script.write_spec import Draft, spec_text
from t1cli.spec.load import LoadedSpec, load_experiment


@dataclass(frozen=True)
class Converted:
    """A script as a spec."""

    text: str
    """The experiment file."""
    arguments: int
    """Arguments of the script, those dropped as secrets not counted."""
    escaped: tuple[str, ...]
    """Flags that ended in `slime_args`."""
    left_out: tuple[str, ...]
    unknowns: tuple[Unknown, ...]
    """Placeholders that stand in the spec."""
    notes: tuple[Note, ...]
    unread: tuple[str, ...] = ()
    """Overrides that the script never looks at."""
    overwritten: tuple[str, ...] = ()
    """Overrides that the script replaces by a value of its own."""
    read: tuple[str, ...] = ()
    """Every variable that the script looks at."""


def convert(submission: Submission, *, name: str, version: str) -> Converted | NotRead:
    """The spec of a submission, or the lines that need help. Raises BadInput for a version without a table."""
    table = load_table(version)
    argv = [shown(word) for word in _without_secrets(submission.argv, table)]
    arguments = read(argv, table)
    blocking = _blocking(submission, table)
    if blocking:
        return NotRead(blocking)
    notes = (*submission.notes, *_left_behind(submission, table))
    draft = _draft(submission, arguments, name=name, version=version)
    wanted = comparable(argv, table)
    for _ in range(3):
        loaded = _load(draft)
        if isinstance(loaded, NotRead):
            return loaded
        missing, surplus = _difference(loaded, wanted, table)
        if not missing and not surplus:
            return _converted(draft, replace(submission, notes=notes), arguments)
        draft = draft.with_arguments(_escaped(missing, arguments), surplus)
    return NotRead((Note(submission.where, f"these arguments do not come back: {', '.join([*missing, *surplus])}"),))


def _without_secrets(argv: Sequence[str], table: Table) -> list[str]:
    given = read(argv, table).given
    return [word for item in given if not _is_secret(item) for word in item.words]


def _is_secret(given: Given) -> bool:
    return given.argument is not None and given.argument.dest in SECRETS


def _left_behind(submission: Submission, table: Table) -> tuple[Note, ...]:
    """What is not written down: secrets, and words that belong to no argument."""
    found = []
    for given in read(submission.argv, table).given:
        if _is_secret(given):
            message = f"{given.flag} was left out: export the key for `ray start` on the nodes instead"
            found.append(Note(submission.where, message))
        elif given.surplus:
            message = f"`{shown(' '.join(given.surplus))}` after {given.flag} belongs to no argument and was left out"
            found.append(Note(submission.where, message))
    for name in submission.environment:
        if names_a_secret(name):
            found.append(Note(submission.where, f"{name} was left out: export it for `ray start` on the nodes instead"))
    return tuple(found)


def _blocking(submission: Submission, table: Table) -> tuple[Note, ...]:
    """Problems that leave nothing to write: unknown numbers, unreadable values, a job without its essentials."""
    found: list[Note] = []
    for given in read(submission.argv, table).given:
        problem = reading_problem(given)
        line = next((getattr(word, "line", 0) for word in given.values), 0)
        where = f"line {line}" if line else submission.where
        names = [name for value in given.values for name in unknown_names(value)]
        if problem is not None and names:
            found.append(Note(where, f"{given.flag} needs a value that is not known: {_asked(names)}"))
        elif problem is not None:
            found.append(Note(where, f"{given.flag} {problem}"))
    flags = {canonical(given) for given in read(submission.argv, table).given}
    missing = [flag for flag in ("--rollout-batch-size", "--hf-checkpoint") if flag not in flags]
    if missing:
        found += [note for note in submission.notes if "backslash" in note.message]
        found.append(Note(submission.where, f"the job is submitted without {', '.join(missing)}"))
    return tuple(found)


def _asked(names: Sequence[str]) -> str:
    """The `--set` that give these values; what no variable holds can only be written into the script."""
    settings = [f"--set {name}=VALUE" for name in dict.fromkeys(names) if name.isidentifier()]
    others = [f"<{name}>" for name in dict.fromkeys(names) if not name.isidentifier()]
    told = [f"convert with {' '.join(settings)}"] if settings else []
    return " and ".join([*told, *([f"put {', '.join(others)} into the script"] if others else [])])


def _draft(submission: Submission, arguments: Arguments, *, name: str, version: str) -> Draft:
    keys = decoded(arguments)
    preset = matching_preset(keys)
    environment = {key: shown(value) for key, value in submission.environment.items() if not names_a_secret(key)}
    tree, assumptions = filled(keys, submission, arguments, preset=preset)
    tree["engine"] |= {"version": version, "from_script": True}
    if environment:
        tree["engine"]["env"] = environment
    return Draft(
        name=name, script=submission.where.partition(":")[0], preset=preset, tree=tree, assumptions=assumptions
    )


def _load(draft: Draft) -> LoadedSpec | NotRead:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "experiment.yaml"
        path.write_text(spec_text(draft), encoding="utf-8")
        try:
            return load_experiment(path)
        except T1Error as error:
            return NotRead(
                tuple(Note(draft.script, f"{d.message} ({d.source_line.strip()})") for d in error.diagnostics)
            )


def _difference(loaded: LoadedSpec, wanted: Comparable, table: Table) -> tuple[list[str], list[str]]:
    """Flags that the spec does not pass as the script does, and flags that it passes beyond it."""
    spec = loaded.spec
    pairs = campaign_pairs(spec, unplaced(spec))
    own = comparable(flattened(pairs), table)
    spelling = {_canonical(flag, table): flag for flag, _ in pairs}
    passed = {**own, **comparable(flattened(escaped_pairs(spec)), table)}
    missing = [flag for flag, values in wanted.items() if passed.get(flag) != values]
    surplus = [spelling[flag] for flag, values in own.items() if wanted.get(flag) != values]
    return missing, surplus


def _canonical(flag: str, table: Table) -> str:
    argument = table.find(flag)
    return argument.flag if argument is not None else flag


def _escaped(missing: Sequence[str], arguments: Arguments) -> dict[str, Any]:
    last = {canonical(given): given for given in arguments.given}
    return {last[flag].flag.removeprefix("--"): _plain(last[flag], arguments) for flag in missing}


def _plain(given: Given, arguments: Arguments) -> Value:
    argument = given.argument
    if argument is None:
        return True if not given.values else list(given.values) if len(given.values) > 1 else given.values[0]
    if not argument.takes_values:
        return True
    value = read([given.flag, *given.values], arguments.table).values.get(argument.dest)
    return given.values[0] if value is None and given.values else value


def _converted(draft: Draft, submission: Submission, arguments: Arguments) -> Converted:
    text = spec_text(draft.with_notes(submission.notes, _placeholders(draft, submission)))
    return Converted(
        text=text,
        arguments=len({canonical(given) for given in arguments.given if given.flag}),
        escaped=tuple(f"--{name}" for name in draft.tree.get("slime_args", {})),
        left_out=tuple(draft.tree["engine"].get("leave_out", ())),
        unknowns=_placeholders(draft, submission),
        notes=submission.notes,
    )


def _placeholders(draft: Draft, submission: Submission) -> tuple[Unknown, ...]:
    text = spec_text(draft)
    return tuple(unknown for unknown in submission.unknowns if f"<{unknown.name}>" in text)


def campaign_name(path: Path) -> str:
    """A campaign's name from a script's."""
    name = re.sub(r"[^a-z0-9._-]+", "-", path.stem.lower().removeprefix("run-").removeprefix("run_"))
    return name.strip("-._")[:64] or "campaign"
