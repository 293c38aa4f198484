"""From a script file to a spec's text, or to a loaded spec that can be planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from t1cli.errors import BadInput, Diagnostic, Refused
from t1cli.slime.script.bash.state import Note
from t1cli.slime.script.read_script import NotRead, Submission, read_script
from t1cli.slime.script.to_spec import Converted, campaign_name, convert
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import LoadedSpec, load_experiment
from t1cli.spec.node import Origin

DEFAULT_VERSION: Final = "0.3.0"
"""slime version that a script is for when nobody says."""


def convert_file(
    path: Path, overrides: Mapping[str, str], *, version: str, allowed: Sequence[Path] = ()
) -> Converted | NotRead:
    """The spec of a script file. Raises BadInput for a file that cannot be read."""
    submission = read_script(path, overrides, allowed)
    if isinstance(submission, NotRead):
        return submission
    found, told = convert(submission, name=campaign_name(path), version=version), _in_vain(submission, path)
    if isinstance(found, NotRead):
        return NotRead((*found.reasons, *told))
    notes = (*found.notes, *told)
    return replace(
        found, notes=notes, unread=submission.unread, overwritten=submission.overwritten, read=submission.read
    )


def _in_vain(submission: Submission, path: Path) -> tuple[Note, ...]:
    """Every `--set` that changes nothing; they are said, not written into the spec."""
    unread = (f"--set {name} changes nothing: the script does not read {name}" for name in submission.unread)
    replaced = (f"--set {name} changes nothing: the script sets {name} itself" for name in submission.overwritten)
    return tuple(Note(path.name, message) for message in (*unread, *replaced))


def load_script(path: Path, overrides: Sequence[str] = ()) -> LoadedSpec:
    """A script as a loaded spec. A `--set` without a dot that the script reads is a variable, any other a spec's key.

    Raises Refused with the lines that need help, BadInput for a `--set` that changes nothing.
    """
    variables = dict(text.split("=", 1) for text in overrides if "=" in text and "." not in text.partition("=")[0])
    keys = [text for text in overrides if text.partition("=")[0] not in variables]
    named = [text.partition("=")[2] for text in keys if text.startswith("engine.version=")]
    found = convert_file(path, variables, version=named[-1] if named else DEFAULT_VERSION)
    if isinstance(found, NotRead):
        error = Refused(f"{path} cannot be planned")
        error.diagnostics = tuple(Diagnostic(reason.message, reason.where) for reason in found.reasons)
        raise error
    keys += _keys_among(found, variables, path)
    with TemporaryDirectory() as directory:
        spec_file = Path(directory) / "experiment.yaml"
        spec_file.write_text(found.text, encoding="utf-8")
        loaded = load_experiment(spec_file, keys)
    inside = str(spec_file)
    places = {key: _elsewhere(where, inside, path) for key, where in loaded.places.items()}
    origins = {key: _origin(origin, inside, path) for key, origin in loaded.origins.items()}
    return replace(loaded, path=path, places=places, origins=origins, asked=str(path), overrides=tuple(overrides))


def _keys_among(found: Converted, variables: Mapping[str, str], path: Path) -> list[str]:
    """Given variables that mean a key of the spec, such as `seed`. Raises BadInput for what means neither."""
    problems = [
        Diagnostic(f"{path} sets {name} itself: --set does not change it", f"--set {name}")
        for name in found.overwritten
    ]
    for name in found.unread:
        if name not in ExperimentSpec.model_fields:
            close = get_close_matches(name, (*found.read, *ExperimentSpec.model_fields), n=1)
            hint = f"did you mean `{close[0]}`?" if close else "keys of a spec are dotted, such as topology.tp"
            problems.append(
                Diagnostic(f"{path} reads no {name}, and a spec has no such key", f"--set {name}", hint=hint)
            )
    if problems:
        raise BadInput.many(tuple(problems))
    return [f"{name}={variables[name]}" for name in found.unread]


def _origin(origin: Origin, inside: str, path: Path) -> Origin:
    return replace(origin, where=_elsewhere(origin.where, inside, path))


def _elsewhere(where: str, inside: str, path: Path) -> str:
    """Lines of the converted file mean nothing to a reader of the script."""
    return str(path) if where.startswith(inside) else where
