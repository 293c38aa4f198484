"""The embedded engine's HTTP server, in a thread of the test."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from t1cli.embedded.inference import InferenceEngine
from t1cli.embedded.server import create_app


@contextmanager
def served_engine(engine: InferenceEngine) -> Iterator[str]:
    """The URL of an engine that is started and ended here."""
    with engine, socket.create_server(("127.0.0.1", 0)) as listening:
        options = uvicorn.Config(create_app(engine), log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(options)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(60)
