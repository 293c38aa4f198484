"""`package.module:function` as the text harness behind it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from difflib import get_close_matches
from types import ModuleType
from typing import Any, cast

from t1cli.errors import Refused
from t1cli.spec.harnesses import WRITTEN, names_a_harness, near_names, text_harness_path
from t1cli.terminal.harness.agent import AgentMaker
from t1cli.terminal.harness.builtin import BuiltinAgent
from t1cli.terminal.harness.text_agent import TextAgents
from t1cli.terminal.harness.text_harness import TextHarness, signature_problem

KEY = "rollout.harness"


def agent_maker(harness: str) -> AgentMaker:
    """What makes the agent of each trial under `rollout.harness`. Raises Refused for a name or path of nothing."""
    path = text_harness_path(harness)
    return BuiltinAgent if path is None else TextAgents(load_harness(path))


def load_harness(path: str) -> TextHarness:
    """The function behind a dotted path. Raises Refused when it cannot be imported or is no TextHarness."""
    if not names_a_harness(path):
        raise Refused(f"`{path}` names no harness", where=KEY, hint=near_names(path) or WRITTEN)
    module_name, _, name = path.partition(":")
    module = _module(module_name)
    found: Any = getattr(module, name, None)
    if found is None:
        near = _near(name, _harnesses_in(module))
        raise Refused(f"{module_name} has no `{name}`", where=KEY, hint=near or "name an async function of it")
    problem = signature_problem(found)
    if problem:
        near = _near(name, [other for other in _harnesses_in(module) if other != name])
        raise Refused(f"{path}: {problem}", where=KEY, hint=near or "define `async def play(trial: TextTrial)`")
    return cast(TextHarness, found)


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
            raise Refused(
                f"{name} imports `{missing.name}`, which is not installed",
                where=KEY,
                hint=f"install {missing.name} wherever trials run",
            ) from missing
        near = _near(missing.name, _siblings(missing.name))
        raise Refused(
            f"no module `{missing.name}`",
            where=KEY,
            hint=near or "install it wherever trials run, or name its directory in PYTHONPATH",
        ) from missing
    except Exception as error:
        # A module of somebody else's may raise anything while it is imported.
        raise Refused(f"importing {name} raised {type(error).__name__}: {error}", where=KEY) from error


def _siblings(name: str) -> list[str]:
    """Modules beside one that is not there."""
    parent, _, _ = name.rpartition(".")
    if not parent:
        return [module.name for module in pkgutil.iter_modules()]
    package = importlib.import_module(parent)
    return [f"{parent}.{module.name}" for module in pkgutil.iter_modules(getattr(package, "__path__", []))]


def _harnesses_in(module: ModuleType) -> list[str]:
    return [name for name, found in vars(module).items() if name[:1] != "_" and not signature_problem(found)]


def _near(name: str, known: Iterable[str]) -> str:
    found = get_close_matches(name, list(known), n=1, cutoff=0.75)
    return f"did you mean `{found[0]}`?" if found else ""
