"""What YAML reads otherwise than people mean, and files that are no experiment at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from t1cli.errors import BadInput, Diagnostic
from t1cli.spec.load import load_experiment

Break = Callable[..., list[Diagnostic]]
Write = Callable[[str], Path]


@pytest.mark.parametrize("written", ["1e-6", "1E-6", "1.0e-6", "0.000001", "+1e-6"])
def test_a_small_learning_rate_is_a_number(base: str, write: Write, written: str) -> None:
    text = base + f"algorithm:\n  actor_learning_rate: {written}\n"
    assert load_experiment(write(text)).spec.algorithm.actor_learning_rate == 1e-6
    assert load_experiment(write(base), [f"algorithm.actor_learning_rate={written}"]).spec.algorithm.kind == "ppo"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("  harness: off", 'quote it: "off"'),
        ("  harness: yes", 'quote it: "yes"'),
        ("  harness: 3", 'quote it: "3"'),
        ("  expected_seconds: 1:30", "write plain numbers: 90 if 1:30 is minutes:seconds, 5400 if hours:minutes"),
        ("  samples_per_prompt: 010", "write 10"),
        ("  samples_per_prompt: 1e2", "write 100"),
        ('  samples_per_prompt: "2"', "write 2 without quotes"),
        ('  routing_replay: "on"', "write true or false"),
    ],
)
def test_a_trap_is_an_error_with_its_own_hint(base: str, problems: Break, line: str, hint: str) -> None:
    (problem,) = problems(base + line + "\n")
    assert problem.hint == hint
    assert problem.where == f"experiment.yaml:{base.count(chr(10)) + 1}:3"
    assert problem.source_line == line


def test_a_quoted_word_is_text(base: str, write: Write) -> None:
    assert load_experiment(write(base + '  harness: "off"\n')).spec.rollout.harness == "off"


@pytest.mark.parametrize("number", [".nan", ".inf", "-.inf"])
def test_numbers_are_finite(base: str, problems: Break, number: str) -> None:
    (problem,) = problems(base + f"  expected_seconds: {number}\n")
    assert "finite" in problem.message or "at least 0" in problem.message


def test_duplicate_keys_name_both_lines(base: str, problems: Break) -> None:
    (problem,) = problems(base + "  max_turns: 5\nname: again\n")[:1]
    assert problem.message == "`max_turns` stands twice, on lines 15 and 19"
    assert problem.where == "experiment.yaml:19:3"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("# only a comment\n", "the file is empty"),
        ("- a\n", "expected `key: value` lines at the top level"),
        ("name:\n\tx: 1\n", "a tab where YAML wants spaces"),
        ("name: a: b\n", "unexpected `:`"),
        ("a: &a [*a]\n", "more than 20000 values once aliases are expanded"),
        ("a: " + "[" * 2000, "nested too deeply to be an experiment"),
        ("a: " + "[" * 60 + "]" * 60, "nested 61 deep; a spec needs no more than 32"),
        ("a: !!python/object:os.system x\n", "the YAML tag `!!python/object:os.system` is not allowed"),
        ("a: 1\n---\nb: 2\n", "not YAML: but found another document"),
        ("x: &x {a: 1}\ny:\n  <<: *x\n", "`<<` merges are not read"),
        ("#" * (1 << 20) + "\n", "more than 1048576 bytes is no experiment file"),
    ],
)
def test_what_is_no_experiment_says_why(problems: Break, content: str, message: str) -> None:
    assert problems(content)[0].message == message


def test_a_bomb_of_aliases_is_refused_at_once(problems: Break) -> None:
    lines = ["a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]")
    assert "once aliases are expanded" in problems("\n".join(lines))[0].message


def test_binary_junk_is_located(tmp_path: Path) -> None:
    path = tmp_path / "junk.yaml"
    path.write_bytes(b"name: x\n\xff\xfe\x00")
    with pytest.raises(BadInput) as refused:
        load_experiment(path)
    assert refused.value.diagnostics == (Diagnostic("not UTF-8 text: byte 0xff", f"{path}:2"),)
