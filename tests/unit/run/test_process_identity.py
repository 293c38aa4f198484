"""A signal reaches the process that is on record, and no other that has its number."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from t1cli.run.process_identity import ProcessIdentity


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield started
    started.kill()
    started.wait()


@pytest.mark.parametrize("with_handles", [True, False])
def test_only_the_recorded_process_is_signalled(
    with_handles: bool, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_handles:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    recorded = ProcessIdentity.of(process.pid)
    later = replace(recorded, started=recorded.started + 1)
    assert not later.send(signal.SIGKILL) and not replace(recorded, boot="another").send(signal.SIGKILL)
    assert not replace(recorded, host="elsewhere").send(signal.SIGKILL) and process.poll() is None
    assert recorded.send(signal.SIGTERM) and process.wait(120) == -signal.SIGTERM
    assert not recorded.send(signal.SIGTERM) and recorded.liveness() == "dead"
