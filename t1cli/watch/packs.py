"""Reading rule packs: shipped ones by name, a person's own by path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml
from pydantic import ValidationError

from t1cli.errors import BadInput, Diagnostic
from t1cli.spec.locate import presets_dir
from t1cli.watch.rule import Pack


def load_packs(names: Sequence[str]) -> tuple[Pack, ...]:
    """Packs by shipped name or path to a YAML file, in order. Raises BadInput with every problem at once."""
    problems: list[Diagnostic] = []
    packs: list[Pack] = []
    for name in names:
        try:
            packs.append(_read(_path_of(name)))
        except BadInput as error:
            problems += error.diagnostics
    if problems:
        raise BadInput.many(tuple(problems))
    return tuple(packs)


def shipped_packs() -> tuple[str, ...]:
    """Names of the packs that come with t1."""
    return tuple(sorted(path.stem for path in (presets_dir() / "watch").glob("*.yaml")))


def _path_of(name: str) -> Path:
    shipped = presets_dir() / "watch" / f"{name}.yaml"
    if name in shipped_packs():
        return shipped
    path = Path(name)
    if path.is_file():
        return path
    raise BadInput(
        f"no rule pack {name!r}", hint="shipped packs: " + ", ".join(shipped_packs()) + "; or a path to a YAML file"
    )


def _read(path: Path) -> Pack:
    try:
        return Pack.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        raise BadInput(f"not YAML: {getattr(error, 'problem', error)}", where=where) from error
    except ValidationError as error:
        raise BadInput.many(
            tuple(
                Diagnostic(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}", str(path))
                for problem in error.errors()
            )
        ) from error
