"""What `rollout.harness` may name, and what is said of everything else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from t1cli.errors import Refused
from t1cli.spec.harnesses import NAMED, names_a_harness, text_harness_path
from t1cli.terminal.harness.builtin import BuiltinAgent
from t1cli.terminal.harness.load_harness import agent_maker, load_harness
from t1cli.terminal.harness.text_agent import TextAgents

MODULE = '''
import functools


async def play(trial):
    """Takes one trial."""


async def more(trial, *, temperature=1.0): ...


class Loop:
    async def __call__(self, trial): ...


instance = Loop()
partly = functools.partial(more, temperature=0.5)


def blocking(trial): ...


async def nothing(): ...


async def two(trial, other): ...


number = 3
'''


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A user's module on the path, under a name that no other test has."""
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "own_agents"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "loop.py").write_text(MODULE)
    (package / "broken.py").write_text("raise ValueError('no licence')\n")
    (package / "lacking.py").write_text("import a_library_that_is_not_there\n")
    yield "own_agents.loop"
    for name in [name for name in sys.modules if name.split(".")[0] == "own_agents"]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["play", "more", "instance", "partly"])
def test_every_way_of_writing_an_async_function_of_the_trial_is_taken(own_module: str, name: str) -> None:
    assert isinstance(agent_maker(f"{own_module}:{name}"), TextAgents)


@pytest.mark.parametrize(
    ("path", "message", "hint"),
    [
        ("own_agents.loop:blocking", "own_agents.loop:blocking: not an async function", "define `async def"),
        ("own_agents.loop:nothing", "own_agents.loop:nothing: takes (), expected one argument", "define `async def"),
        ("own_agents.loop:two", "own_agents.loop:two: takes (trial, other), expected one", "define `async def"),
        ("own_agents.loop:number", "own_agents.loop:number: a int, expected an async function", "define `async def"),
        ("own_agents.loop:plya", "own_agents.loop has no `plya`", "did you mean `play`?"),
        ("own_agents.lop:play", "no module `own_agents.lop`", "did you mean `own_agents.loop`?"),
        ("not_there_at_all:play", "no module `not_there_at_all`", "PYTHONPATH"),
        ("own_agents.broken:play", "importing own_agents.broken raised ValueError: no licence", ""),
        ("own_agents.lacking:play", "imports `a_library_that_is_not_there`, which is not installed", "install a_lib"),
        ("terminus2", "`terminus2` names no harness", "did you mean `terminus-2`?"),
        ("own agent", "`own agent` names no harness", "package.module:function"),
    ],
)
def test_what_cannot_be_called_is_refused_with_what_was_probably_meant(
    own_module: str, path: str, message: str, hint: str
) -> None:
    with pytest.raises(Refused) as refused:
        load_harness(path)
    (said,) = refused.value.diagnostics
    assert message in said.message and hint in said.hint and said.where == "rollout.harness"


def test_names_of_t1s_own_come_before_paths() -> None:
    assert agent_maker("builtin") is BuiltinAgent and text_harness_path("builtin") is None
    assert all(names_a_harness(name) and isinstance(agent_maker(name), TextAgents) for name in NAMED)
    assert text_harness_path("a.b:c") == "a.b:c"
