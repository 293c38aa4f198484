"""A short Ray job that asks every node something and prints one line of JSON: works from wherever jobs can be sent."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import t1cli
from t1cli.cluster.jobs import JobRequest, Jobs
from t1cli.cluster.limits import OpenFiles, from_json, of_every_node
from t1cli.errors import CouldNotAsk

MARK: Final = "T1-PROBE "
_ENTRYPOINT: Final = "python3 -m t1cli.cluster.probe"


def open_files(jobs: Jobs, *, wait_seconds: float = 300.0) -> tuple[OpenFiles, ...]:
    """Limits of the running raylets, the GCS and a driver. Raises CouldNotAsk when the probe does not answer."""
    text = answer_of_job(jobs, _ENTRYPOINT, {}, {"t1_probe": "open_files"}, wait_seconds=wait_seconds)
    return from_json(json.loads(text))


def answer_of_job(
    jobs: Jobs,
    entrypoint: str,
    environment: Mapping[str, Any],
    metadata: Mapping[str, str],
    *,
    wait_seconds: float,
) -> str:
    """The line that a probing job prints after `MARK`; this package travels with it. Raises CouldNotAsk."""
    job_id = f"t1-probe-{secrets.token_hex(4)}"
    package = str(Path(t1cli.__file__).resolve().parent)
    travelling = {"py_modules": [package], "excludes": ["**/__pycache__/**"], **environment}
    jobs.submit(JobRequest(job_id, entrypoint, travelling, metadata))
    deadline = time.monotonic() + wait_seconds
    while (state := jobs.state(job_id)).lives:
        if time.monotonic() > deadline:
            jobs.stop(job_id, wait_seconds=10)
            raise CouldNotAsk(f"probe {job_id} did not end within {wait_seconds:g} s", where=jobs.address)
        time.sleep(0.3)
    for line in jobs.log(job_id).splitlines():
        if line.startswith(MARK):
            return line.removeprefix(MARK)
    raise CouldNotAsk(f"probe {job_id} ended without an answer: {state.message[-500:]}", where=jobs.address)


def main() -> None:
    """Inside the job."""
    import ray

    ray.init(log_to_driver=False)
    answer: list[dict[str, Any]] = [found.to_json() for found in of_every_node()]
    print(MARK + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
