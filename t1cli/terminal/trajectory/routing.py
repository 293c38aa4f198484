"""Routing rows on the wire: base64 int32 in, the smallest integer type out; a wrong row is never guessed.

Shapes: R rows (prompt + sampled - 1), L MoE layers, K experts per token.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

import numpy as np

from t1cli.errors import T1Error
from t1cli.terminal.trajectory.row import RoutingRows


@dataclass(frozen=True)
class RoutingShape:
    """What one token's routing looks like in the model that is trained."""

    layers: int
    top_k: int
    experts: int


class MissingRouting(T1Error):
    """The engine sent no routing though it is replayed. Dropping the trial would condition the batch on its capture.

    (catalogue F4)
    """


class WrongRouting(T1Error):
    """Routing rows that cannot belong to the tokens they came with (catalogue F3)."""


def decode_routing(payload: str, *, rows: int, shape: RoutingShape) -> RoutingRows:
    """(rows, L, K) expert indices of SGLang's base64 little-endian int32 `routed_experts`. Raises WrongRouting.

    (catalogue F2, F3)
    """
    try:
        flat = np.frombuffer(base64.b64decode(payload, validate=True), dtype="<i4")
    except (binascii.Error, ValueError) as error:
        raise WrongRouting(f"routed experts are no base64 of int32: {error}") from error
    wanted = rows * shape.layers * shape.top_k
    if flat.size != wanted:
        raise WrongRouting(
            f"routed experts hold {flat.size} indices, expected {rows} rows × {shape.layers} layers × {shape.top_k}",
            hint="compare the engine's MoE layers and top-k with model.architecture",
        )
    if flat.size and (flat.min() < 0 or flat.max() >= shape.experts):
        raise WrongRouting(f"expert indices {flat.min()}..{flat.max()} outside 0..{shape.experts - 1}")
    cube = flat.reshape(rows, shape.layers, shape.top_k)
    return cube.astype(np.uint8) if shape.experts <= 256 else cube.astype(np.uint16)


def encode_routing(routed_experts: RoutingRows) -> str:
    """The wire form of `decode_routing`."""
    return base64.b64encode(np.ascontiguousarray(routed_experts, dtype="<i4").tobytes()).decode("ascii")
