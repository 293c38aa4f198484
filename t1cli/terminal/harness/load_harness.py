"""`package.module:function` as the text harness behind it."""

from __future__ import annotations

from types import ModuleType
from typing import cast

from t1cli.errors import Refused
from t1cli.spec.harnesses import WRITTEN, names_a_harness, near_names, text_harness_path
from t1cli.terminal.harness.agent import AgentMaker
from t1cli.terminal.harness.builtin import BuiltinAgent
from t1cli.terminal.harness.text_agent import TextAgents
from t1cli.terminal.harness.text_harness import TextHarness, signature_problem
from t1cli.terminal.own_code import did_you_mean, own_attribute, own_module

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
    module = own_module(module_name, key=KEY)
    found = own_attribute(module, name, key=KEY)
    if found is None:
        near = did_you_mean(name, _harnesses_in(module))
        raise Refused(f"{module_name} has no `{name}`", where=KEY, hint=near or "name an async function of it")
    problem = signature_problem(found)
    if problem:
        near = did_you_mean(name, [other for other in _harnesses_in(module) if other != name])
        raise Refused(f"{path}: {problem}", where=KEY, hint=near or "define `async def play(trial: TextTrial)`")
    return cast(TextHarness, found)


def _harnesses_in(module: ModuleType) -> list[str]:
    return [name for name, found in vars(module).items() if name[:1] != "_" and not signature_problem(found)]
