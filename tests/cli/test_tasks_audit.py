"""`t1 tasks audit`: words, JSON and exit codes, against an endpoint on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from t1cli.cli.app import app
from t1cli.terminal.tasks.audit.finding import REJECTIONS
from t1cli.terminal.tasks.audit.rubric import DIMENSIONS
from t1cli.terminal.tasks.generator import generate_pool, write_harbor

KEY = "planted-key-0123456789"
GOOD = json.dumps({"scores": dict.fromkeys(DIMENSIONS, 5), "rejections": dict.fromkeys(REJECTIONS)})


def audit(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["tasks", "audit", *map(str, arguments)])


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    for task in generate_pool(4, 5):
        write_harbor(task, tmp_path / "pool")
    return tmp_path / "pool"


class Endpoint(ThreadingHTTPServer):
    """Gives every request the same answer, or 401 without the key."""

    content = GOOD
    seen = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        self.server.seen += 1
        self.rfile.read(int(self.headers["content-length"]))
        allowed = self.headers.get("authorization") == f"Bearer {KEY}"
        message = {"choices": [{"message": {"content": self.server.content}}]}
        body = json.dumps(message if allowed else {"error": self.headers.get("authorization")}).encode()
        self.send_response(200 if allowed else 401)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing on stderr, which is looked at."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_good_tasks_without_a_judge(pool: Path) -> None:
    result = audit(pool)
    assert result.exit_code == 0, result.output
    assert "4 of 4 tasks accepted" in result.stdout and "no judge" in result.stdout


def test_a_bad_task_is_named_and_answers_no(pool: Path) -> None:
    bad = sorted(pool.iterdir())[0]
    (bad / "tests/test_outputs.py").write_text("def test_a():\n    assert True\n")
    result = audit(pool)
    assert result.exit_code == 1 and "3 of 4 tasks accepted" in result.stdout
    assert f"✗ {bad.name}: rejected for verifier_too_weak" in result.stdout and "empty-check" in result.stdout
    assert audit(pool, "--select", 3).exit_code == 0
    assert audit(pool, "--select", 4).exit_code == 1


def test_a_judged_selection_as_json(
    pool: Path, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("T1_JUDGE_KEY", KEY)
    record = tmp_path / "verdicts.jsonl"
    asked = (pool, "--judge", endpoint.url, "--judge-model", "m", "--record", record, "--select", 2, "--json")
    result = audit(*asked)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["states"] == {"accepted": 4} and len(found["selected"]) == 2 and found["asked"] == 4
    assert {task["scored_weight"] for task in found["results"]} == {1.0}
    again = json.loads(audit(*asked).stdout)
    assert (again["asked"], again["resumed"], endpoint.seen) == (0, 4, 4)
    assert again["choices"] == found["choices"]


@pytest.mark.parametrize("key", [None, "another-key-9876543210"])
def test_a_judge_that_refuses_is_no_answer(
    key: str | None, pool: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("T1_JUDGE_KEY", raising=False)
    if key:
        monkeypatch.setenv("T1_JUDGE_KEY", key)
    result = audit(pool, "--judge", endpoint.url, "--judge-model", "m")
    assert result.exit_code == 3 and "HTTP 401" in result.stdout
    assert key is None or key not in result.output


def test_a_judge_that_talks_is_refused(pool: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T1_JUDGE_KEY", KEY)
    endpoint.content = "All of them are fine."
    result = audit(pool, "--judge", endpoint.url, "--judge-model", "m")
    assert result.exit_code == 3, result.output
    assert "malformed answer refused" in result.stdout and "0 of 4" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--judge", "http://j/v1"], "--judge-model is missing"),
        (["--judge-model", "m"], "--judge is missing"),
        (["--judge", "j", "--judge-model", "m"], "no http address"),
        (["--judge", "http://a:b@j/v1", "--judge-model", "m"], "T1_JUDGE_KEY"),
        (["--rubric", "nowhere"], "shipped: t1"),
        (["--checked", "nowhere"], "t1 tasks check"),
        (["--record", "nowhere/verdicts"], "is no directory"),
    ],
)
def test_bad_input_is_told(arguments: list[str], said: str, pool: Path) -> None:
    result = audit(pool, *arguments)
    assert result.exit_code == 2 and said in result.stderr, result.output


def test_a_directory_without_tasks_is_bad_input(tmp_path: Path) -> None:
    assert audit(tmp_path).exit_code == 2
