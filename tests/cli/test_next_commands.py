"""Every command that t1 prints to be pasted repeats the options it came from."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.spec.command_line import command_line, with_settings

STRATEGY = "t1-strategy15k"


def output(*arguments: str) -> str:
    return CliRunner().invoke(app, list(arguments)).output


def next_of(text: str) -> list[str]:
    """The words of the last `Next:` line, as a shell reads them."""
    found = re.findall(r"^Next: (?:.*?`)?(t1 [^`\n]*?)(?:`.*)?$", text, re.MULTILINE)
    return shlex.split(found[-1])


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1)))
def test_a_shell_reads_back_what_was_given(overrides: list[str]) -> None:
    words = shlex.split(command_line("plan", "spec", overrides=overrides))
    assert words[:3] == ["t1", "plan", "spec"] and words[4::2] == overrides and set(words[3::2]) <= {"--set"}


def test_a_key_set_anew_is_said_once_and_others_stay() -> None:
    assert with_settings(("a.b=1", "c=2"), ("a.b=3",)) == ("c=2", "a.b=3")


def test_a_fitting_plan_goes_on_with_the_same_settings() -> None:
    told = output("plan", STRATEGY, "--set", "rollout.num_rollouts=7")
    assert next_of(told) == ["t1", "preflight", STRATEGY, "--set", "rollout.num_rollouts=7"]


def test_a_fix_replaces_its_own_key_and_keeps_the_rest() -> None:
    told = output("plan", STRATEGY, "--set", "rollout.context_tokens=131072", "--set", "topology.cp=2")
    words = next_of(told)
    assert words[:5] == ["t1", "plan", STRATEGY, "--set", "rollout.context_tokens=131072"]
    assert "topology.cp=2" not in words and any(word.startswith("topology.cp=") for word in words)


def test_preflight_goes_on_with_settings_and_runs_directory(tmp_path: Path) -> None:
    given = ("--set", "rollout.num_rollouts=7", "--runs-dir", str(tmp_path / "my runs"))
    told = output("preflight", "quickstart", *given, "--only", "storage")
    assert next_of(told) == ["t1", "launch", "quickstart", *given]


@pytest.mark.parametrize("more", [(), ("--detach",), ("--accept", "M2", "--detach")])
def test_launch_without_a_terminal_repeats_its_options(tmp_path: Path, more: tuple[str, ...]) -> None:
    given = ("--set", "rollout.num_rollouts=7", "--runs-dir", str(tmp_path / "my runs"))
    told = " ".join(output("launch", "quickstart", *given, *more).split())
    (hint,) = re.findall(r"`(t1 launch [^`]*)`", told)
    words = shlex.split(hint)
    assert words[:7] == ["t1", "launch", "quickstart", *given] and words[-1] == "--yes"
    assert sorted(words[7:-1]) == sorted(more)
