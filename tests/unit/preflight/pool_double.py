"""A pool server in the words of OpenClaw-RL's, that says what a test wants it to say."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def pool_double(pool: dict[str, Any], *, token: str = "", ours: bool = False, metrics: str = "") -> Iterator[str]:
    """Its URL while it runs. `/allocate` is answered 429, as a full pool does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if token and self.headers.get("authorization") != f"Bearer {token}":
                return self._answer(401, {"ok": False, "error": "a bearer token of this server is needed"})
            if self.path == "/status":
                return self._answer(200, {"ok": True, "pool": pool, **({"t1_api": 1} if ours else {})})
            if self.path == "/metrics" and metrics:
                return self._send(200, metrics.encode())
            return self._answer(404, {"ok": False, "error": "no such route"})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self._answer(429, {"ok": False, "error": "no free run slot", "code": "RUN_SLOTS_EXHAUSTED"})

        def _answer(self, status: int, content: dict[str, Any]) -> None:
            self._send(status, json.dumps(content).encode())

        def _send(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def status(**other: Any) -> dict[str, Any]:
    """Upstream's default limits, idle."""
    return {"max_tasks": 16, "max_runs_per_task": 8, "total_active_runs": 0, "pending_closes": 0, "tasks": {}, **other}
