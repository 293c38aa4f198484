"""`t1 audit`: what it says of a clean run, of every fault, and of a live engine; exit codes and JSON."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from t1cli.cli.audit import command
from t1cli.cli.boundary import guarded
from t1cli.terminal.trajectory.assemble import RowLabel
from t1cli.terminal.trajectory.row import TrainingRow, Turn
from t1cli.terminal.trajectory.store import save_rows
from t1cli.terminal.trajectory.text_space import ByteText
from tests.unit.terminal.trajectory.assembled import assemble

GOLDEN = Path(__file__).parent / "golden" / "audit.txt"
END = 1000
TEXT = ByteText(lambda token: bytes([token % 256]), {END})


def turn(prompt: tuple[int, ...], sampled: tuple[int, ...]) -> Turn:
    routes = np.zeros((len(prompt) + len(sampled) - 1, 1, 1), dtype=np.uint8)
    return Turn(prompt, sampled, (-0.5,) * len(sampled), routes, "", "stop", 7)


def trial(name: str, *, harness: str) -> tuple[TrainingRow, ...]:
    """Two turns, the second after a harness that kept the ids, stripped the reply, or wrote another one."""
    first = turn(tuple(b"task"), (*b"ls ", END))
    history = {"ids": (*b"ls ", END), "strips": (*b"ls", END), "rewrites": (*b"rm", END)}[harness]
    label = RowLabel(name, 0, "task", "files", reward=1.0)
    return assemble(
        [first, turn((*b"task", *history, *b"out"), (*b"ok", END))], label=label, routing="required", text=TEXT
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two rollouts: 4 trials, 8 turns, 28 sampled tokens and 3 of a lost reply."""
    place = tmp_path / "demo" / "attempt_1"
    (place / "rollouts").mkdir(parents=True)
    (tmp_path / "demo" / "latest").symlink_to("attempt_1")
    (place / "spec.resolved.yaml").write_text("rollout: {routing_replay: true}\n")
    save_rows(place / "rollouts" / "rollout_000000.npz", [*trial("a", harness="ids"), *trial("b", harness="ids")])
    save_rows(
        place / "rollouts" / "rollout_000001.npz", [*trial("c", harness="strips"), *trial("d", harness="rewrites")]
    )
    write_metrics(place, masked=3)
    return place


def write_metrics(place: Path, *, masked: int) -> None:
    lines: list[dict[str, Any]] = []
    for rollout, lost in ((0, 0), (1, masked)):
        tokens = {"terminal/sampled_tokens": 14 + 3 * rollout, "terminal/trained_tokens": 14}
        tokens |= {"terminal/masked_tokens/truncation": lost} if lost else {}
        lines.append({"time": 1.0, "rollout/step": rollout, **tokens})
        lines.append({"time": 1.0, "train/step": rollout, "train/train_rollout_logprob_abs_diff": 0.01 * (rollout + 1)})
    (place / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def audit(run: Path, *options: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(guarded(command))
    result = CliRunner().invoke(app, [str(run), *options], env={"COLUMNS": "100", "NO_COLOR": "1"})
    return result.exit_code, result.output


def test_a_run_without_a_fault_is_the_golden_text(run: Path) -> None:
    code, said = audit(run)
    assert said == GOLDEN.read_text()
    assert code == 0, "two of four trials are not strict throughout, and that is no gate"


def test_json_has_every_figure_and_the_reports_beside_them(run: Path) -> None:
    code, said = audit(run, "--json")
    found = json.loads(said)
    assert code == 0 and found["clean"] and found["faults"] == []
    assert found["rows"]["relations"] == {"strict": 6, "normalized": 1, "retokenized": 0, "split": 1}
    assert found["reference"] == {"aligned": 0.9739, "retokenized": 0.0261, "drift": 0.0}
    assert found["rows"]["all_strict_trials"] == 2 and found["rows"]["drifted_tokens"] == 0
    assert found["ledger"] == {
        "sampled": 31,
        "accounts": {"trained": 28, "truncation": 3},
        "open_rollouts": [],
        "disagreeing_rollouts": [],
        "unaccounted": 0,
    }
    assert found["logprob_gap"] == pytest.approx(0.015)
    blamed = {(turn["trial_id"], turn["turn"]): turn for turn in found["rows"]["blamed"]}
    assert blamed["c", 1]["rule"] == "white space of the reply was changed" and blamed["c", 1]["cell"] == [2, 1]
    assert blamed["d", 1]["relation"] == "split"


def spoil(run: Path, change: Any) -> None:
    path = run / "rollouts" / "rollout_000000.npz"
    rows = [*trial("a", harness="ids"), *trial("b", harness="ids")]
    save_rows(path, [change(rows[0]), *rows[1:]])


def drifted(row: TrainingRow) -> TrainingRow:
    tokens = row.tokens.copy()
    tokens[row.response_start] += 1
    return replace(row, tokens=tokens)


def unmasked(row: TrainingRow) -> TrainingRow:
    mask = row.loss_mask.copy()
    mask[0] = 1
    return replace(row, loss_mask=mask)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (drifted, "4 tokens in the loss are not what the engine sampled"),
        (unmasked, "1 tokens in the loss are not what the engine sampled"),
        (lambda row: replace(row, routed_experts=None), "1 rows have no routing, and it is replayed"),
    ],
)
def test_every_fault_is_found_in_the_saved_rows_alone(run: Path, change: Any, fault: str) -> None:
    spoil(run, change)
    code, said = audit(run)
    assert code == 1 and f"✗ {fault}" in said and "✓" not in said


def test_a_ledger_that_does_not_close_is_a_fault(run: Path) -> None:
    write_metrics(run, masked=2)
    code, said = audit(run)
    assert code == 1 and "the token ledger does not close in rollouts 2" in said


def test_rows_of_before_records_prove_nothing_and_say_so(run: Path) -> None:
    for path in sorted((run / "rollouts").iterdir()):
        rows = trial(path.stem, harness="ids")
        save_rows(path, [replace(row, audit=replace(row.audit, records=())) for row in rows])
    (run / "metrics.jsonl").unlink()
    code, said = audit(run)
    assert code == 0 and "2 rows have no record of their turns" in said and "✓" not in said


def test_without_saved_rollouts_there_is_nothing_to_audit(run: Path) -> None:
    for path in (run / "rollouts").iterdir():
        path.unlink()
    code, said = audit(run)
    assert code == 2 and "no saved rollout" in said


class Scorer(BaseHTTPRequestHandler):
    """Answers as SGLang does: a log-prob of -0.75 for every prompt token, none for the first."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        ids = body["input_ids"]
        log_probs = [[None if place == 0 else -0.75, token, None] for place, token in enumerate(ids)]
        reply = json.dumps({"meta_info": {"input_token_logprobs": log_probs, "weight_version": "7"}}).encode()
        assert body["logprob_start_len"] == 0 and body["sampling_params"]["max_new_tokens"] == 0
        self.send_response(200)
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *arguments: Any) -> None:
        return


@pytest.fixture
def engine() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Scorer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_live_engine_scores_rows_again(run: Path, engine: str) -> None:
    code, said = audit(run, "--engine", engine, "--rows", "3", "--json")
    found = json.loads(said)
    assert code == 0 and len(found["engine"]) == 3
    assert found["engine_gap"] == pytest.approx(0.25)
    assert all(gap["weight_versions"] == [7] and gap["engine_version"] == "7" for gap in found["engine"])
    code, said = audit(run, "--engine", f"{engine}/generate", "--rows", "1")
    assert "gap 0.2500 under weight version 7" in said and "most in turn" in said


def test_an_engine_that_is_away_is_no_fault_of_the_rows(run: Path) -> None:
    code, said = audit(run, "--engine", "http://127.0.0.1:1")
    assert code == 3 and "leave --engine out" in said


def test_rows_of_another_temperature_are_not_compared_with_an_engines_scores(run: Path, engine: str) -> None:
    (run / "spec.resolved.yaml").write_text("rollout: {routing_replay: true, temperature: 0.7}\n")
    code, said = audit(run, "--engine", engine)
    assert code == 2 and "temperature 0.7" in said and "leave --engine out" in said
    assert audit(run)[0] == 0
