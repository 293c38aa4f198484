"""File-descriptor limits read from /proc, and what is said when they are too low."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from t1cli.cluster.limits import OpenFiles, from_json, here, how_to_raise, needed_open_files, read_open_files, too_low


def process(soft: int, hard: int = 1048576) -> OpenFiles:
    return OpenFiles("node-1", "raylet", 7, soft, hard, 100)


@pytest.mark.catalogue("S8")
def test_a_running_process_is_read_as_it_runs() -> None:
    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (333, 444))

    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, preexec_fn=lower)
    try:
        found = read_open_files(child.pid, "raylet", "n")
        assert found is not None and (found.soft, found.hard) == (333, 444) and found.open >= 3
    finally:
        child.communicate(b"\n")
    assert read_open_files(child.pid, "raylet", "n") is None


@pytest.mark.catalogue("S8")
def test_the_reports_320_trials_need_more_than_1024() -> None:
    assert needed_open_files(320) > 1024
    assert too_low([process(1024), process(65536)], 320) == (process(1024),)


@pytest.mark.catalogue("S8")
def test_people_are_told_how_to_raise_it() -> None:
    assert "ulimit -n 4096" in how_to_raise(process(1024), 320)
    assert "hard limit is 2048" in how_to_raise(process(1024, 2048), 320)


def test_the_raylet_and_a_gcs_are_told_apart_by_their_program(tmp_path: Path) -> None:
    def fake(pid: int, program: str, soft: str, session: str = "session_2026-01-01_00-00-00_1_2") -> None:
        (tmp_path / str(pid) / "fd").mkdir(parents=True)
        (tmp_path / str(pid) / "fd" / "0").touch()
        (tmp_path / str(pid) / "cmdline").write_bytes(f"{program}\0--session-name={session}\0".encode())
        (tmp_path / str(pid) / "limits").write_text(f"Max open files            {soft}   unlimited   files\n")

    fake(10, "/opt/ray/raylet", "1024")
    fake(11, "/opt/ray/gcs_server", "65536")
    fake(12, "/usr/bin/python3", "5")
    fake(13, "/opt/ray/gcs_server", "9", "session_2026-01-01_00-00-00_9_9")
    (tmp_path / "self").mkdir()
    found = here("n", raylet_pid=10, proc=tmp_path)
    assert [(one.process, one.soft) for one in found] == [("raylet", 1024), ("gcs_server", 65536)]
    assert from_json([one.to_json() for one in found]) == found
    assert os.path.exists("/proc")
