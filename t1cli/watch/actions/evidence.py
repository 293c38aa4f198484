"""The evidence bundle: what was known when a rule acted, kept beside the run (a collapse may never come again)."""

from __future__ import annotations

import json
import re
from pathlib import Path

from t1cli.records import write_json, write_text
from t1cli.run.directory import RunDirectory
from t1cli.run.redaction import LineRedactor, Redactor
from t1cli.watch.actions.journal import watch_dir
from t1cli.watch.logs.classifier import LogClassifier
from t1cli.watch.result import WatchResult

TAIL_BYTES = 200_000
BYTES_BEFORE = 32_768
"""What is read ahead of a tail, to know whether it begins inside a private key."""


def write_evidence(run: RunDirectory, key: str, result: WatchResult) -> Path:
    """Rules, diagnoses, the tails of metrics, events and logs, and what the logs' signatures say; without secrets."""
    folder = watch_dir(run) / "evidence" / re.sub(r"[^A-Za-z0-9._-]+", "-", key).strip("-")
    redactor = Redactor.of_environment()
    write_json(folder / "watch.json", redactor.json(result.to_json()))
    for source in (run.metrics_jsonl, run.events_jsonl, run.spec_yaml, *sorted(run.logs.glob("*.log"))):
        if source.is_file():
            write_text(folder / source.name, _tail(source, redactor))
    signatures = {path.name: _signatures(path) for path in sorted(run.logs.glob("*.log"))}
    write_json(folder / "logs.json", redactor.json(signatures))
    return folder


def _tail(path: Path, redactor: Redactor) -> str:
    """The last whole lines, without secrets; also without the rest of a key that begins before them."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        begins = max(0, size - TAIL_BYTES)
        file.seek(max(0, begins - BYTES_BEFORE))
        before, text = file.read(min(begins, BYTES_BEFORE)), file.read()
    if begins:
        rest, _, text = text.partition(b"\n")
        before += rest
    lines = LineRedactor(redactor)
    for line in before.decode("utf-8", "replace").split("\n") if before else ():
        lines.line(line)
    return "\n".join(lines.line(line) for line in text.decode("utf-8", "replace").split("\n"))


def _signatures(path: Path) -> dict[str, object]:
    log = LogClassifier(path)
    log.consume(last=True)
    cause = log.state.cause()
    found = json.loads(json.dumps(log.state.to_json()))
    return {**found, "first_cause": None if cause is None else cause.__dict__}
