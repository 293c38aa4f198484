"""Values that steer terminals, end strings, overflow arithmetic or grow without end are refused where they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from t1cli.errors import BadInput
from t1cli.spec.load import load_experiment
from t1cli.spec.locate import find_experiment


def refused(*overrides: str) -> str:
    with pytest.raises(BadInput) as error:
        load_experiment(Path("quickstart"), overrides)
    return error.value.message


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (r'tasks.path="a\0b"', "U+0000"),
        (r'tasks.path="\x1b[2J"', "U+001B"),
        ('tasks.path="\u202ebad"', "U+202E"),
        (r'tasks.path="\ud800"', "U+D800"),
        ("tasks.path=" + "x" * 5000, "5000 characters"),
        ("rollout.batch_size=9007199254740993", "16 digits"),
        ("rollout.temperature=1e300", "1e+300"),
        ("rollout.temperature=5e-324", "4.94066e-324"),
        ("model.architecture.num_hidden_layers=1000000", "at most 2000"),
        ("hardware.gpus_per_node=-4", "at least 0"),
        ("seed=${", "is no reference"),
        ("name=${${name}}", "is no reference"),
        ("name=${name}", "Recursive"),
        ("sandbox={kind: pool, urls: [], max_tasks: 1, max_runs_per_task: 1}", "at least 1"),
    ],
)
def test_a_hostile_value_is_refused(setting: str, message: str) -> None:
    assert message in refused(setting)


def test_a_refused_value_is_told_once_and_its_key_is_not_called_missing(tmp_path: Path) -> None:
    text = (find_experiment(Path("quickstart"))).read_text()
    (tmp_path / "experiment.yaml").write_text(text.replace("\nname: quickstart", '\nname: "a\\0b"'))
    settings = (
        "rollout.batch_size=99999999999999999999",
        r'algorithm.kind="\x1b"',
        "rollout.max_turns=${name}",
        "seed=",
        r'trainer={cpu_threads: "\0"}',
        "rollout.trial_wall_seconds={",
    )
    with pytest.raises(BadInput) as error:
        load_experiment(tmp_path, settings)
    assert [problem.message.partition(":")[0] for problem in error.value.diagnostics] == [
        "the control character U+0000 in a value",
        "a whole number of 20 digits",
        "the control character U+001B in a value",
        "`seed` is given no value",
        "the control character U+0000 in a value",
        "not YAML",
    ]


def test_an_unknown_key_is_told_even_where_its_value_is_refused() -> None:
    with pytest.raises(BadInput) as error:
        load_experiment(Path("quickstart"), [r'rollout.bogus="\0"'])
    assert [problem.message for problem in error.value.diagnostics] == [
        "the control character U+0000 in a value",
        "unknown key `bogus` in `rollout`",
    ]


def test_references_that_double_each_time_are_refused_before_they_have_grown() -> None:
    # Resolved, the last one would have 2**62 characters.
    doubling = [f"slime_args.a{i}=${{slime_args.a{i - 1}}}${{slime_args.a{i - 1}}}" for i in range(1, 60)]
    assert "grow to more than" in refused("slime_args.a0=xxxxxxxx", *doubling)


def test_only_the_first_bytes_of_an_endless_file_are_read(tmp_path: Path) -> None:
    with (tmp_path / "experiment.yaml").open("wb") as stream:
        stream.truncate(1 << 36)
    with pytest.raises(BadInput, match="is no experiment file"):
        load_experiment(tmp_path)


def test_a_name_that_no_file_can_have_is_bad_input() -> None:
    with pytest.raises(BadInput, match="no experiment can be at"):
        find_experiment(Path("x" * 5000))
