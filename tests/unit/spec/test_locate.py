"""A spec argument is a file, a directory with experiment.yaml, or the name of a shipped experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from t1cli.errors import BadInput
from t1cli.spec.load import load_experiment
from t1cli.spec.locate import experiments_dir, find_experiment


def test_a_file_a_directory_and_a_bare_name_are_the_same_experiment() -> None:
    folder = experiments_dir() / "quickstart"
    digests = {load_experiment(path).digest for path in (folder, folder / "experiment.yaml", Path("quickstart"))}
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("argument", "message", "hint"),
    [
        ("quickstrat", "no experiment at quickstrat", "did you mean `quickstart`?"),
        ("nowhere/at/all.yaml", "no experiment at nowhere/at/all.yaml", "shipped experiments: quickstart, "),
        (".", ". is a directory without experiment.yaml", "shipped experiments: quickstart, "),
    ],
)
def test_what_is_not_there_gets_a_near_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str, message: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput) as refused:
        find_experiment(Path(argument))
    assert refused.value.diagnostics[0].message == message
    assert refused.value.diagnostics[0].hint.startswith(hint)


def test_a_relative_path_of_the_spec_starts_at_the_experiment_file() -> None:
    loaded = load_experiment(Path("quickstart"))
    assert loaded.resolve_path(loaded.spec.tasks.path) == (experiments_dir() / "quickstart" / "tasks").resolve()
    assert loaded.resolve_path("/data/pool") == Path("/data/pool")
