"""Routing stays encoded until its new rows are wanted: any start, any shape, both decoders, every wrong payload."""

from __future__ import annotations

import binascii
import builtins
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.terminal.trajectory import routing
from t1cli.terminal.trajectory.routing import RoutingCapture, RoutingShape, WrongRouting, encode_routing


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_rows_from_any_start_are_those_of_a_whole_decode(data: st.DataObject) -> None:
    layers, top_k, rows = (data.draw(st.integers(1, high)) for high in (5, 4, 40))
    experts = data.draw(st.sampled_from([2, 256, 257, 60_000]))
    routed = np.random.default_rng(rows).integers(0, experts, size=(rows, layers, top_k))
    captured = RoutingCapture(encode_routing(routed), rows=rows, shape=RoutingShape(layers, top_k, experts))
    groups, routing._GROUPS_PER_CHUNK = routing._GROUPS_PER_CHUNK, data.draw(st.integers(1, 9))
    try:
        start = data.draw(st.integers(0, rows))
        found = captured.rows(start)
    finally:
        routing._GROUPS_PER_CHUNK = groups
    assert np.array_equal(found, routed[start:]) and found.dtype == captured.dtype
    assert captured.dtype == (np.uint8 if experts <= 256 else np.uint16) and captured.shape == routed.shape


def test_without_pybase64_the_standard_library_decodes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    routed = np.arange(60).reshape(10, 3, 2) % 8
    captured = RoutingCapture(encode_routing(routed), rows=10, shape=RoutingShape(3, 2, 8))
    real = builtins.__import__

    def without(name: str, *arguments: Any, **named: Any) -> Any:
        if name == "pybase64":
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    routing._decoder.cache_clear()
    try:
        assert routing._decoder()("AAAA") == binascii.a2b_base64("AAAA")
        assert np.array_equal(captured.rows(4), routed[4:])
        with pytest.raises(WrongRouting):
            spoiled(routed, "*").rows()
    finally:
        routing._decoder.cache_clear()


def spoiled(routed: np.ndarray, character: str) -> RoutingCapture:
    """The payload with one character in its middle replaced."""
    payload = encode_routing(routed)
    middle = len(payload) // 2
    text = payload[:middle] + character + payload[middle + 1 :]
    rows, layers, top_k = routed.shape
    return RoutingCapture(text, rows=rows, shape=RoutingShape(layers, top_k, 8))


@pytest.mark.parametrize("character", ["*", "=", "\n", "é", "/"])
def test_a_payload_that_cannot_be_right_is_an_error(character: str) -> None:
    with pytest.raises(WrongRouting):
        spoiled(np.arange(60).reshape(10, 3, 2) % 8, character).rows()


@pytest.mark.parametrize("rows", [9, 11])
def test_too_few_and_too_many_rows_are_told_before_anything_is_decoded(rows: int) -> None:
    payload = encode_routing(np.zeros((10, 3, 2), dtype=np.uint8))
    with pytest.raises(WrongRouting, match=f"{rows} rows × 3 layers × 2"):
        RoutingCapture(payload, rows=rows, shape=RoutingShape(3, 2, 8))
