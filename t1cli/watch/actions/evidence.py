"""The evidence bundle: what was known when a rule acted, kept beside the run (a collapse may never come again)."""

from __future__ import annotations

import json
import re
from pathlib import Path

from t1cli.launch.redaction import Redactor
from t1cli.launch.run_directory import RunDirectory
from t1cli.records import write_json, write_text
from t1cli.watch.actions.journal import watch_dir
from t1cli.watch.logs.classifier import LogClassifier
from t1cli.watch.result import WatchResult

TAIL_BYTES = 200_000


def write_evidence(run: RunDirectory, key: str, result: WatchResult) -> Path:
    """Rules, diagnoses, the tails of metrics, events and logs, and what the logs' signatures say; without secrets."""
    folder = watch_dir(run) / "evidence" / re.sub(r"[^A-Za-z0-9._-]+", "-", key).strip("-")
    redactor = Redactor.of_environment()
    write_json(folder / "watch.json", redactor.json(result.to_json()))
    for source in (run.metrics_jsonl, run.events_jsonl, run.spec_yaml, *sorted(run.logs.glob("*.log"))):
        if source.is_file():
            write_text(folder / source.name, redactor.text(_tail(source)))
    signatures = {path.name: _signatures(path) for path in sorted(run.logs.glob("*.log"))}
    write_json(folder / "logs.json", redactor.json(signatures))
    return folder


def _tail(path: Path) -> str:
    """The last whole lines."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL_BYTES))
        text = file.read()
    if size > TAIL_BYTES:
        text = text[text.find(b"\n") + 1 :]
    return text.decode("utf-8", "replace")


def _signatures(path: Path) -> dict[str, object]:
    log = LogClassifier(path)
    log.consume(last=True)
    cause = log.state.cause()
    found = json.loads(json.dumps(log.state.to_json()))
    return {**found, "first_cause": None if cause is None else cause.__dict__}
