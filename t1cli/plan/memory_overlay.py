"""The calibration overlay that a spec names: coefficients fitted to readings, which the plan uses and shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import memory_model
from memory_model.coefficients import DEFAULT, Coefficients
from memory_model.overlay import overlay_about, read_overlay
from t1cli.errors import BadInput
from t1cli.spec.load import LoadedSpec

KEY = "trainer.memory_overlay"
SHIPPED = Path(memory_model.__file__).parent / "data" / "overlays"


@dataclass(frozen=True)
class Overlay:
    """Coefficients in place of memory_model's defaults, and what they were fitted to."""

    name: str
    """As the spec names it."""
    about: str
    """What the fit saw, in the words of the file."""
    coefficients: Coefficients

    @property
    def moved(self) -> Mapping[str, float]:
        """The coefficients that differ from the defaults."""
        values = {field.name: getattr(self.coefficients, field.name) for field in fields(Coefficients)}
        return {name: value for name, value in values.items() if value != getattr(DEFAULT, name)}


def overlay_of(loaded: LoadedSpec) -> Overlay | None:
    """The overlay of a spec, None where it names none. BadInput, located at the key, for one that cannot be read."""
    name = loaded.spec.trainer.memory_overlay
    if name is None:
        return None
    path = overlay_path(loaded, name)
    try:
        return Overlay(name, overlay_about(path), read_overlay(path))
    except OSError as error:
        raise BadInput(
            f"the memory overlay `{name}` cannot be read at {path}: {error.strerror or error}",
            loaded.where(KEY),
            _hint(),
        ) from error
    except ValueError as error:
        raise BadInput(f"the memory overlay `{name}` is none: {error}", loaded.where(KEY), _hint()) from error


def overlay_path(loaded: LoadedSpec, name: str) -> Path:
    """The file of an overlay: a shipped one by its bare name, else a path from the experiment file's directory."""
    return loaded.resolve_path(name) if is_file_name(name) else SHIPPED / f"{name}.json"


def is_file_name(name: str) -> bool:
    """Whether an overlay's name is a path; bare names are shipped ones."""
    return "/" in name or name.endswith(".json")


def _hint() -> str:
    shipped = ", ".join(sorted(path.stem for path in SHIPPED.glob("*.json")))
    return (
        "a JSON file that `t1 calibrate` wrote, its path from the experiment file's directory, "
        f"or one that is shipped ({shipped}); null for uncalibrated figures"
    )
