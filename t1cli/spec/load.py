"""The one way in: an experiment file and overrides become a LoadedSpec."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from t1cli.errors import BadInput, Diagnostic
from t1cli.spec.command_line import command_line
from t1cli.spec.compose import Composed, compose
from t1cli.spec.contradictions import contradictions
from t1cli.spec.diagnose import diagnose
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.locate import find_experiment
from t1cli.spec.node import Origin as Origin
from t1cli.spec.origins import trace


@dataclass(frozen=True)
class LoadedSpec:
    """An experiment with everything that is needed to explain it."""

    spec: ExperimentSpec
    path: Path
    """The experiment file."""
    origins: Mapping[str, Origin]
    """Dotted key of every leaf to its origin, defaults included. A list is one leaf."""
    digest: str
    """Short hash of the resolved spec; equal specs have equal digests."""
    places: Mapping[str, str] = field(default_factory=dict)
    """`file:line` of every key that is written somewhere, blocks and list items (`watch.rules.0`) included."""
    dropped: Mapping[str, Origin] = field(default_factory=dict)
    """Leaves that vanished because a later layer changed their block's `kind`."""
    asked: str = ""
    """The experiment as the user named it; empty for its path."""
    overrides: tuple[str, ...] = ()
    """`--set` as given."""

    def where(self, key: str) -> str:
        """`file:line` of a dotted key, of its nearest parent, or the file alone."""
        while key:
            if key in self.places:
                return self.places[key]
            key = key.rpartition(".")[0]
        return str(self.path)

    def again(self, command: str, *more: str, runs_dir: Path | str | None = None) -> str:
        """Another command about the same experiment, with everything that was set: `t1 COMMAND SPEC --set … MORE`."""
        spec = self.asked or str(self.path)
        return command_line(command, spec, overrides=self.overrides, runs_dir=runs_dir, more=more)

    def resolve_path(self, text: str) -> Path:
        """A path of the spec; relative ones start at the experiment file's directory."""
        return self.path.resolve().parent / text


def load_experiment(path: Path, overrides: Sequence[str] = ()) -> LoadedSpec:
    """Read, compose and check an experiment. Raises BadInput with every problem at once.

    `path` is a file, a directory that holds experiment.yaml, or the bare name of a shipped experiment.
    """
    problems: list[Diagnostic] = []
    file = find_experiment(Path(path))
    composed = compose(file, overrides, problems)
    spec = _validate(composed, problems)
    if problems or spec is None:
        raise BadInput.many(tuple(problems))
    resolved = spec.model_dump(mode="json")
    traced = trace(composed.tree, resolved)
    return LoadedSpec(
        spec,
        file,
        traced.origins,
        _digest(resolved),
        traced.places,
        composed.dropped,
        asked=str(path),
        overrides=tuple(overrides),
    )


def _validate(composed: Composed, problems: list[Diagnostic]) -> ExperimentSpec | None:
    """The spec, or None with the reasons in `problems`."""
    plain = composed.tree.plain()
    spec: ExperimentSpec | None = None
    try:
        # JSON mode is strict where it must be ("16" is no number, yes is no number) and still reads lists as tuples.
        spec = ExperimentSpec.model_validate_json(json.dumps(plain), strict=True)
    except ValidationError as error:
        problems += diagnose(error, ExperimentSpec, composed.tree, composed.complete)
    problems += contradictions(plain, composed.tree)
    return spec


def _digest(resolved: Mapping[str, Any]) -> str:
    canonical = json.dumps(resolved, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]
