"""From a script file to a spec's text, or to a loaded spec that can be planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from t1cli.errors import Diagnostic, Refused
from t1cli.slime.script.read_script import NotRead, read_script
from t1cli.slime.script.to_spec import Converted, campaign_name, convert
from t1cli.spec.load import LoadedSpec, load_experiment
from t1cli.spec.node import Origin

DEFAULT_VERSION: Final = "0.3.0"
"""slime version that a script is for when nobody says."""


def convert_file(
    path: Path, overrides: Mapping[str, str], *, version: str, allowed: Sequence[Path] = ()
) -> Converted | NotRead:
    """The spec of a script file. Raises BadInput for a file that cannot be read."""
    submission = read_script(path, overrides, allowed)
    return (
        submission
        if isinstance(submission, NotRead)
        else convert(submission, name=campaign_name(path), version=version)
    )


def load_script(path: Path, overrides: Sequence[str] = ()) -> LoadedSpec:
    """A script as a loaded spec. `--set` values with a dot are spec keys, the others environment variables.

    Raises Refused with the lines that need help.
    """
    variables = dict(text.split("=", 1) for text in overrides if "=" in text and "." not in text.partition("=")[0])
    keys = [text for text in overrides if text.partition("=")[0] not in variables]
    named = [text.partition("=")[2] for text in keys if text.startswith("engine.version=")]
    found = convert_file(path, variables, version=named[-1] if named else DEFAULT_VERSION)
    if isinstance(found, NotRead):
        error = Refused(f"{path} cannot be planned")
        error.diagnostics = tuple(Diagnostic(reason.message, reason.where) for reason in found.reasons)
        raise error
    with TemporaryDirectory() as directory:
        spec_file = Path(directory) / "experiment.yaml"
        spec_file.write_text(found.text, encoding="utf-8")
        loaded = load_experiment(spec_file, keys)
    inside = str(spec_file)
    places = {key: _elsewhere(where, inside, path) for key, where in loaded.places.items()}
    origins = {key: _origin(origin, inside, path) for key, origin in loaded.origins.items()}
    return replace(loaded, path=path, places=places, origins=origins, asked=str(path), overrides=tuple(overrides))


def _origin(origin: Origin, inside: str, path: Path) -> Origin:
    return replace(origin, where=_elsewhere(origin.where, inside, path))


def _elsewhere(where: str, inside: str, path: Path) -> str:
    """Lines of the converted file mean nothing to a reader of the script."""
    return str(path) if where.startswith(inside) else where
