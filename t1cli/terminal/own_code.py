"""Code of the user's own that a spec names: imported here, and whatever it does meanwhile told as a refusal."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from difflib import get_close_matches
from types import ModuleType
from typing import Any

from t1cli.errors import Refused


def own_module(name: str, *, key: str) -> ModuleType:
    """A module by its dotted name. Raises Refused, at `key` of the spec, for one that is absent or cannot be imported.

    An exit and a failure outside Exception are refused like any other; a Ctrl-C is nobody's fault and passes.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        raise _absent(name, missing, key) from missing
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # A module of somebody else's may raise anything while it is imported.
        raise Refused(f"importing {name} raised {type(error).__name__}: {error}", where=key) from error


def own_attribute(module: ModuleType, name: str, *, key: str) -> Any:
    """What a module has under a name; None when it has nothing. Raises Refused when the module's own look-up fails."""
    try:
        return getattr(module, name, None)
    except Exception as error:  # a module may look its names up by a function of its own
        raise Refused(f"{module.__name__}.{name} raised {type(error).__name__}: {error}", where=key) from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question with the nearest of the known names; empty when none is near."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.75)
    return f"did you mean `{found[0]}`?" if found else ""


def _absent(name: str, missing: ModuleNotFoundError, key: str) -> Refused:
    if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
        return Refused(
            f"{name} imports `{missing.name}`, which is not installed",
            where=key,
            hint=f"install {missing.name} wherever trials run",
        )
    near = did_you_mean(missing.name, _siblings(missing.name, key))
    return Refused(
        f"no module `{missing.name}`",
        where=key,
        hint=near or "install it wherever trials run, or name its directory in PYTHONPATH",
    )


def _siblings(name: str, key: str) -> list[str]:
    """Modules beside one that is not there."""
    parent, _, _ = name.rpartition(".")
    if not parent:
        return [module.name for module in pkgutil.iter_modules()]
    try:
        package = own_module(parent, key=key)
    except Refused:
        return []
    return [f"{parent}.{module.name}" for module in pkgutil.iter_modules(getattr(package, "__path__", []))]
