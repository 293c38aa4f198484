"""A disk that takes nothing any more hides neither what ended a campaign nor that it was interrupted."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from t1cli.errors import ExitCode, Refused
from t1cli.launch import campaign_process
from t1cli.launch.backend import Job
from t1cli.launch.campaign_log import CampaignLog
from t1cli.launch.campaign_process import detached_main, log_of, run_to_its_end
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventKind, EventWriter
from t1cli.run.lock import lock_holder, take

FULL = Path("/dev/full")


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run whose events and log lie on a full disk."""
    found = RunDirectory(tmp_path / "camp" / "attempt_1")
    found.logs.mkdir(parents=True)
    found.events_jsonl.symlink_to(FULL)
    found.campaign_log.symlink_to(FULL)
    take(found, stop_command="t1 launch x --stop")
    return found


@pytest.mark.parametrize("failure", [Refused("the reason"), KeyboardInterrupt(), ValueError("x")])
def test_what_ended_the_campaign_arrives_and_the_lock_is_given_back(failure: BaseException, run: RunDirectory) -> None:
    def body() -> str:
        raise failure

    with pytest.raises(type(failure)) as raised, log_of(run) as log:
        run_to_its_end(run, body, log)  # type: ignore[arg-type]
    assert raised.value is failure
    assert lock_holder(run.path.parent) is None


def test_a_phase_that_fails_keeps_its_own_failure(run: RunDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    events = EventWriter(run.events_jsonl)
    began: list[EventKind] = []
    events.write = lambda kind, **_: began.append(kind)  # type: ignore[method-assign]
    with pytest.raises(Refused, match="the reason"), events.phase("load"):
        events.write = EventWriter.write.__get__(events)  # type: ignore[method-assign]
        raise Refused("the reason")
    assert began == [EventKind.PHASE_BEGAN] and "takes no more" in capsys.readouterr().err


def test_a_log_on_a_full_disk_loses_lines_and_nothing_else(run: RunDirectory) -> None:
    shown: list[str] = []
    log = CampaignLog(run.campaign_log, echo=shown.append)
    log("rollout 1")
    log("a file called \udcff")
    log.close()
    log.close()
    assert shown == ["rollout 1", "a file called \udcff"]


def test_a_log_takes_names_that_are_no_text(tmp_path: Path) -> None:
    log = CampaignLog(tmp_path / "campaign.log")
    log.only_log("a file called \udcff")
    log.close()
    assert (tmp_path / "campaign.log").read_text().endswith(" a file called \\udcff\n")


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, ExitCode.COULD_NOT_ASK), (errno.ECHILD, ExitCode.BUG)])
def test_a_detached_campaign_calls_a_full_disk_no_bug(
    number: int, code: ExitCode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, "what the kernel said", "/some/file")

    monkeypatch.setattr(campaign_process, "_run_detached", fail)
    body: Callable[[Job], str] = lambda _: "finished"  # noqa: E731
    assert detached_main(["/nowhere"], body) == code  # type: ignore[arg-type]
    said = capsys.readouterr().err
    assert ("bug in t1" in said) == (code is ExitCode.BUG) and "what the kernel said" in said
