"""The plain process sandbox: the same contract, without isolation, and loud about it."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest

from t1cli.errors import CouldNotAsk
from t1cli.spec.sandbox import LocalSandbox
from t1cli.terminal.sandbox import local
from t1cli.terminal.sandbox.local import LocalProvider, choose_backend
from t1cli.terminal.sandbox.sandbox import SandboxError


def test_it_warns_loudly(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        provider = LocalProvider(LocalSandbox(backend="process"), tmp_path)
    assert provider.backend == "process"
    assert "commands of the model run as you" in provider.warning
    assert provider.warning in caplog.text


def test_auto_falls_back_with_the_reason_and_bubblewrap_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "bubblewrap_problem", lambda: "missing programs: bwrap")
    backend, warning = choose_backend("auto")
    assert backend == "process" and "missing programs: bwrap" in warning
    with pytest.raises(CouldNotAsk, match="missing programs: bwrap"):
        choose_backend("bubblewrap")


def test_files_jobs_and_closing(tmp_path: Path) -> None:
    provider = LocalProvider(LocalSandbox(backend="process"), tmp_path)
    source = tmp_path / "source"
    source.mkdir()
    (source / "file.txt").write_text("ours\n")

    async def whole() -> None:
        sandbox = await provider.create("plain", owner="test")
        await sandbox.put_directory(source, "/work", read_only=False)
        first = await sandbox.exec("cat file.txt; setsid sleep 311 & sleep 312 & exit 3", timeout_seconds=120)
        assert (first.output, first.exit_code) == ("ours\n", 3)
        assert (await sandbox.exec("sleep 313", timeout_seconds=0.2)).exit_code == 124
        assert await sandbox.read_file("/work/file.txt", max_bytes=10) == b"ours\n"
        assert (await sandbox.exec('cat "$T1_ROOT/work/file.txt"', timeout_seconds=120)).output == "ours\n"
        assert await sandbox.end_processes() == 2
        await sandbox.exec("mkdir -p locked/inner && chmod 000 locked; sleep 314 &", timeout_seconds=120)
        await sandbox.close()
        await sandbox.close()
        with pytest.raises(SandboxError, match="gone"):
            await sandbox.exec("true", timeout_seconds=1)

    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(whole())
    assert len(os.listdir("/proc/self/fd")) == before
    assert not (tmp_path / "plain").exists()
    assert provider.leases.leases()[0].closed
