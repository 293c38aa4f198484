"""slime's engine client gets time limits, against a real server that never answers (C6)."""

from __future__ import annotations

import importlib
import socket
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import requests

from t1cli.plugin import hooks
from t1cli.plugin.patches import control_plane
from t1cli.plugin.patches.control_plane import TARGET, BoundedRequests, bound, time_limit


@pytest.fixture
def silent_url() -> Iterator[str]:
    """A port that accepts and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        taken: list[socket.socket] = []
        threading.Thread(target=lambda: taken.append(server.accept()[0]), daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(autouse=True)
def finders() -> Iterator[None]:
    before = list(sys.meta_path)
    yield
    sys.meta_path[:] = before


@pytest.mark.catalogue("C6")
@pytest.mark.parametrize(
    ("endpoint", "seconds"),
    [
        ("pause_generation", 120.0),
        ("get_model_info", 120.0),
        ("workers/http%3A%2F%2Fa", 120.0),
        ("release_memory_occupation", 900.0),
        ("update_weights_from_distributed", None),
        ("update_weights_from_tensor", None),
        ("init_weights_update_group", None),
    ],
)
def test_control_is_bounded_and_bulk_transfer_is_not(endpoint: str, seconds: float | None) -> None:
    assert time_limit(f"http://10.0.0.1:30000/{endpoint}?x=1") == (10.0, seconds)


@pytest.mark.catalogue("C6")
def test_a_hanging_engine_is_given_up(silent_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_plane, "CONTROL_SECONDS", 0.3)
    hooks.set_up_worker()
    engine = importlib.import_module(TARGET)
    assert isinstance(engine.requests, BoundedRequests)
    with pytest.raises(requests.exceptions.ReadTimeout, match=r"read timeout=0\.3"):
        engine.SGLangEngine(silent_url)._make_request("pause_generation")


def test_a_module_that_is_loaded_already_is_bounded_once() -> None:
    engine = importlib.import_module(TARGET)
    control_plane.patch_now()
    first = engine.requests
    control_plane.patch_now()
    hooks.set_up_worker()
    assert engine.requests is first and isinstance(first, BoundedRequests)
    assert engine.requests.exceptions is requests.exceptions


def test_other_imports_are_untouched() -> None:
    hooks.set_up_worker()
    hooks.set_up_worker()
    assert sum(type(finder).__name__ == "_Finder" for finder in sys.meta_path) == 1
    assert importlib.import_module("slime.utils.types").Sample


def test_a_given_limit_stays() -> None:
    seen: list[object] = []
    module = SimpleNamespace(get=lambda url, timeout=None: seen.append(timeout), Session="s")
    stand_in = BoundedRequests(module)
    stand_in.get("http://a/health", timeout=5.0)
    stand_in.get("http://a/health")
    assert seen == [5.0, (10.0, 120.0)] and stand_in.Session == "s"


def test_code_of_another_shape_is_left_alone() -> None:
    class SGLangEngine:
        def _make_request(self, endpoint, payload=None, timeout=30): ...

    other = SimpleNamespace(SGLangEngine=SGLangEngine, requests=requests)
    assert "is not" in bound(other) and other.requests is requests
