"""Address forms and the authentication mode."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from t1cli.cluster.address import auth_mode, cluster_address
from t1cli.cluster.jobs import Jobs, _answers_http
from t1cli.errors import BadInput, CouldNotAsk


@pytest.mark.parametrize(
    "text", ["http://head:8265", "https://ray.example:443", "head:6379", "ray://head:10001", "auto", "[::1]:8265"]
)
def test_every_form_of_ray_is_taken(text: str) -> None:
    found = cluster_address(text, {})
    assert found is not None and found.text == text


@pytest.mark.parametrize("text", ["head", "ftp://head:1", "http://", "head:port", "http://user:pw@head:8265"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        cluster_address(text, {})


def test_the_spec_comes_before_the_environment() -> None:
    environment = {"RAY_ADDRESS": "b:6379", "RAY_API_SERVER_ADDRESS": "http://c:8265"}
    assert cluster_address("http://a:8265/", environment).text == "http://a:8265"
    assert cluster_address(None, environment).source == "RAY_API_SERVER_ADDRESS"
    assert cluster_address(None, {"RAY_ADDRESS": "b:6379"}).text == "b:6379"
    assert cluster_address(None, {}) is None


def test_the_mode_is_always_said(tmp_path: Path) -> None:
    assert auth_mode({}, tmp_path) == "disabled"
    assert auth_mode({"RAY_AUTH_MODE": "token"}, tmp_path) == "token"
    assert auth_mode({"RAY_AUTH_TOKEN": "x"}, tmp_path) == "token"
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray/auth_token").write_text("x")
    assert auth_mode({}, tmp_path) == "token"
    assert auth_mode({"RAY_AUTH_MODE": "disabled"}, tmp_path) == "disabled"


def test_a_cluster_that_does_not_answer_is_said_within_the_limit() -> None:
    class Hanging:
        def list_jobs(self) -> None:
            import threading

            threading.Event().wait(30)

    with pytest.raises(CouldNotAsk, match=r"did not answer within 0\.1 s"):
        Jobs(Hanging(), "http://head:8265", call_seconds=0.1).living({})


def test_refused_authentication_names_the_variable() -> None:
    class Refusing:
        def list_jobs(self) -> None:
            raise RuntimeError("Request failed with status code 401: Unauthorized")

    with pytest.raises(CouldNotAsk, match="RAY_AUTH_MODE") as refused:
        Jobs(Refusing(), "http://head:8265").living({})
    assert "RAY_AUTH_TOKEN" in refused.value.diagnostics[0].hint


def test_a_port_that_looks_like_a_status_is_no_refusal() -> None:
    class Away:
        def list_jobs(self) -> None:
            raise ConnectionError("Failed to connect to Ray at address: http://127.0.0.1:54019.")

    with pytest.raises(CouldNotAsk, match="not reachable"):
        Jobs(Away(), "http://127.0.0.1:54019").living({})


class Answering(BaseHTTPRequestHandler):
    """Answers with the status that its server was given."""

    def do_GET(self) -> None:
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(("status", "is_one"), [(200, True), (404, True), (401, True), (503, False)])
def test_a_port_is_a_job_server_when_it_answers_over_http(status: int, is_one: bool) -> None:
    server = HTTPServer(("127.0.0.1", 0), Answering)
    server.status = status
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    assert _answers_http(f"127.0.0.1:{server.server_port}") is is_one
    thread.join(120)
    server.server_close()
    assert not _answers_http(f"127.0.0.1:{server.server_port}"), "nobody listens any more"


def test_a_port_that_speaks_something_else_is_no_job_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"\x00\x01 not http\r\n")

        thread = threading.Thread(target=speak)
        thread.start()
        assert not _answers_http(f"127.0.0.1:{listener.getsockname()[1]}")
        thread.join(120)
