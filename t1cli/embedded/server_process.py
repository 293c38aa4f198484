"""The inference server as a child process, for whoever samples outside a campaign."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from t1cli.embedded.cpu_environment import cpu_environment
from t1cli.errors import T1Error

_CONTROL_SECONDS = 60.0


@dataclass(frozen=True)
class RunningServer:
    """A server that answers."""

    url: str

    def update_weights(self, path: Path, version: int) -> None:
        """New weights from a file of `save_weights`, behind the server's barrier. Raises T1Error when refused."""
        body = {"model_path": str(path.resolve()), "weight_version": str(version)}
        answer = httpx.post(
            f"{self.url}/update_weights_from_disk", json=body, timeout=_CONTROL_SECONDS, trust_env=False
        )
        if answer.status_code != 200:
            raise T1Error(f"the inference server refused weights: {answer.text[:500]}", where=str(path))


@contextmanager
def inference_server(checkpoint: Path, *options: str) -> Iterator[RunningServer]:
    """A server on a free loopback port, ended on leaving; `options` are those of `t1cli.embedded.server`."""
    argv = [sys.executable, "-m", "t1cli.embedded.server", "--checkpoint", str(checkpoint), "--port", "0", *options]
    environment = {**os.environ, **cpu_environment(threads=1)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise T1Error(f"the inference server ended with status {process.wait()} before it answered")
            place = json.loads(line)
            yield RunningServer(f"http://{place['host']}:{place['port']}")
        finally:
            process.terminate()
