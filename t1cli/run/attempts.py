"""Where runs live: `runs/<name>/attempt_N`, the `latest` link, and how a run is named on the command line."""

from __future__ import annotations

import os
import re
from pathlib import Path

from t1cli.errors import BadInput
from t1cli.run.directory import RunDirectory
from t1cli.spec.command_line import absolute_runs_dir

_ELSEWHERE = "`--runs-dir` or T1_RUNS_DIR names another place"
_ATTEMPT = re.compile(r"attempt_[1-9][0-9]{0,8}\Z")


def runs_root(option: Path | None = None) -> Path:
    """The option, else T1_RUNS_DIR, else `./runs`; absolute."""
    root = absolute_runs_dir(option)
    try:
        usable = root.is_dir() or not os.path.lexists(root)
    except OSError as problem:
        raise BadInput(f"no run directory can be at {root}: {problem.strerror}", str(root), _ELSEWHERE) from problem
    if not usable:
        raise BadInput(f"{root} is no directory, so no run can be in it", str(root), _ELSEWHERE)
    return root


def attempts(campaign: Path) -> tuple[RunDirectory, ...]:
    """All attempts of `runs/<name>` in order."""
    if not campaign.is_dir():
        return ()
    found = [entry for entry in campaign.iterdir() if _ATTEMPT.match(entry.name) and entry.is_dir()]
    return tuple(sorted((RunDirectory(entry) for entry in found), key=lambda run: run.attempt))


def latest_attempt(campaign: Path) -> RunDirectory | None:
    """The attempt with the highest number."""
    every = attempts(campaign)
    return every[-1] if every else None


def next_attempt(campaign: Path) -> RunDirectory:
    """The directory that the next launch would get; nothing is created."""
    last = latest_attempt(campaign)
    return RunDirectory(campaign / f"attempt_{last.attempt + 1 if last else 1}")


def create_attempt(campaign: Path) -> RunDirectory:
    """Create the next attempt's directory and point `latest` at it."""
    campaign.mkdir(parents=True, exist_ok=True)
    while True:
        run = next_attempt(campaign)
        try:
            run.path.mkdir()
        except FileExistsError:
            continue
        point_latest(run)
        return run


def point_latest(run: RunDirectory) -> None:
    """Make `runs/<name>/latest` a relative link to this attempt, in one step."""
    link = run.path.parent / "latest"
    aside = run.path.parent / f".latest.{os.getpid()}"
    aside.unlink(missing_ok=True)
    aside.symlink_to(run.path.name)
    aside.replace(link)


def all_runs(root: Path) -> tuple[RunDirectory, ...]:
    """Every attempt of every campaign under a root, by name and number."""
    if not root.is_dir():
        return ()
    return tuple(run for campaign in sorted(root.iterdir()) if campaign.is_dir() for run in attempts(campaign))


def newest_run(root: Path) -> RunDirectory | None:
    """The run whose launch, or last event, is the newest."""
    return max(all_runs(root), key=_last_written, default=None)


def find_run(reference: str, root: Path) -> RunDirectory:
    """A run by path, by `name` (its latest attempt) or by `name/attempt_N`. Raises BadInput with what there is."""
    for candidate in (Path(reference), root / reference):
        try:
            found = _run_at(Path(os.path.abspath(candidate)))
        except OSError:  # a name that no file can have, or a directory that may not be read
            continue
        if found is not None:
            return found
    names = sorted({run.name for run in all_runs(root)})
    raise BadInput(
        f"no run `{reference}`: expected a run directory, a campaign's name or name/attempt_N",
        where=str(root),
        hint=f"runs here: {', '.join(names)}" if names else "`t1 runs` lists runs; `--runs-dir` says where they are",
    )


def _run_at(path: Path) -> RunDirectory | None:
    resolved = path.resolve() if path.name == "latest" else path
    if _ATTEMPT.match(resolved.name) and resolved.is_dir():
        return RunDirectory(resolved)
    return latest_attempt(resolved)


def _last_written(run: RunDirectory) -> float:
    written = [path.stat().st_mtime for path in (run.events_jsonl, run.record_json, run.path) if path.exists()]
    return max(written, default=0.0)
