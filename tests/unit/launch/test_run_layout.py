"""The page about the run directory is complete, and rooms take their paths from one place."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from t1cli.launch.campaign_log import CampaignLog
from t1cli.launch.launch import launch
from t1cli.run.directory import RunDirectory
from tests.run_layout import listed, unlisted


def test_every_path_that_a_run_directory_has_is_listed() -> None:
    run = RunDirectory(Path("runs/some/attempt_1"))
    paths = [getattr(run, name) for name, of in vars(RunDirectory).items() if isinstance(of, property)]
    own = [path.relative_to("runs").parts for path in paths if isinstance(path, Path)]
    assert len(own) > 20
    assert [parts for parts in own if not any(_same(parts, entry) for entry in listed())] == []


def _same(parts: tuple[str, ...], entry: tuple[str, ...]) -> bool:
    named = (part.rstrip("/") for part in entry)
    return len(parts) == len(entry) and all(map(fnmatchcase, parts, named))


def test_a_launched_and_resumed_run_holds_nothing_that_is_not_listed(loaded, options, listener, stages) -> None:
    record = launch(loaded, options, listener, stages())
    run = RunDirectory(Path(record.run_dir))
    CampaignLog(run.campaign_log).close()
    assert run.record_json.exists() and unlisted(options.runs_root) == []
    (run.path / "left_behind").mkdir()
    (run.logs / "other.log").touch()
    (run.checkpoints / "reference").mkdir()
    under = f"{loaded.spec.name}/attempt_1"
    assert unlisted(options.runs_root) == [
        f"{under}/checkpoints/reference/", f"{under}/left_behind/", f"{under}/logs/other.log",
    ]  # fmt: skip
