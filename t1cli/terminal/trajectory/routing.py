"""Routing rows on the wire: base64 int32 in, the smallest integer type out; a wrong row is never guessed.

Shapes: R rows (prompt + sampled - 1), L MoE layers, K experts per token.

A reply carries the rows of its whole prompt again. Base64 can be cut at every 16th character (12 bytes, three
indices), so that only the rows that a trajectory does not have yet are ever decoded.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from t1cli.errors import T1Error
from t1cli.terminal.trajectory.row import RoutingRows

IndexType = np.dtype[np.uint8] | np.dtype[np.uint16]
"""Type of an expert index."""
_CHARS_PER_GROUP: Final = 16
_INDICES_PER_GROUP: Final = 3
_GROUPS_PER_CHUNK: Final = 16_384
"""256 KiB of base64: decoded, checked and narrowed in the cache, so that no int32 copy of a reply ever exists."""


@dataclass(frozen=True)
class RoutingShape:
    """What one token's routing looks like in the model that is trained."""

    layers: int
    top_k: int
    experts: int

    @property
    def per_token(self) -> int:
        """Expert indices of one token."""
        return self.layers * self.top_k

    @property
    def dtype(self) -> IndexType:
        """The smallest type that holds every expert index."""
        return np.dtype(np.uint8) if self.experts <= 256 else np.dtype(np.uint16)


class MissingRouting(T1Error):
    """The engine sent no routing though it is replayed. Dropping the trial would condition the batch on its capture.

    (catalogue F4)
    """


class WrongRouting(T1Error):
    """Routing rows that cannot belong to the tokens they came with (catalogue F3)."""


class RoutingCapture:
    """The routing of one reply, still encoded: SGLang's base64 little-endian int32 `routed_experts` (catalogue F2)."""

    def __init__(self, payload: str, *, rows: int, shape: RoutingShape) -> None:
        """Raises WrongRouting when the payload's length is not that of `rows` rows; nothing is decoded yet."""
        self._payload, self._rows, self.routing_shape = payload, rows, shape
        wanted = -(-rows * shape.per_token * 4 // 3) * 4
        if len(payload) != wanted:
            raise WrongRouting(
                f"routed experts are {len(payload)} characters of base64, expected {wanted}: "
                f"{rows} rows × {shape.layers} layers × {shape.top_k} indices of 4 bytes",
                hint="compare the engine's MoE layers and top-k with model.architecture",
            )

    def __len__(self) -> int:
        return self._rows

    @property
    def shape(self) -> tuple[int, int, int]:
        """(R, L, K)."""
        return self._rows, self.routing_shape.layers, self.routing_shape.top_k

    @property
    def dtype(self) -> IndexType:
        """Type of the decoded rows."""
        return self.routing_shape.dtype

    def rows(self, start: int = 0) -> RoutingRows:
        """(R - start, L, K) rows from `start` on. Raises WrongRouting."""
        buffer = bytearray()
        self.append_to(buffer, start)
        return as_rows(buffer, self.shape[1], self.shape[2], self.dtype)

    def append_to(self, buffer: bytearray, start: int) -> None:
        """Add the rows from `start` on to a buffer of `dtype` indices. Raises WrongRouting."""
        group, surplus = divmod(start * self.routing_shape.per_token, _INDICES_PER_GROUP)
        decode, bytes_before = _decoder(), len(buffer)
        for first in range(group * _CHARS_PER_GROUP, len(self._payload), _GROUPS_PER_CHUNK * _CHARS_PER_GROUP):
            chunk = self._payload[first : first + _GROUPS_PER_CHUNK * _CHARS_PER_GROUP]
            try:
                indices = np.frombuffer(decode(chunk), dtype="<i4")[surplus:]
            except (binascii.Error, ValueError) as error:
                raise WrongRouting(f"routed experts are no base64 of int32: {error}") from error
            buffer += self._narrow(indices).data.cast("B")
            surplus = 0
        found = (len(buffer) - bytes_before) // self.dtype.itemsize
        if found != (self._rows - start) * self.routing_shape.per_token:
            # Padding inside the payload is the one thing that strict decoding piece by piece lets through.
            raise WrongRouting(f"routed experts hold {found} indices from row {start} on, of {self._rows} rows")

    def _narrow(self, indices: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
        # Read as unsigned, a negative index is larger than any expert: one pass finds both.
        if indices.size and int(indices.view("<u4").max()) >= self.routing_shape.experts:
            low, high = int(indices.min()), int(indices.max())
            raise WrongRouting(f"expert indices {low}..{high} outside 0..{self.routing_shape.experts - 1}")
        return indices.astype(self.dtype)


def encode_routing(routed_experts: RoutingRows | npt.NDArray[np.int32]) -> str:
    """The wire form that RoutingCapture reads: base64 of int32, as SGLang answers."""
    return base64.b64encode(np.ascontiguousarray(routed_experts, dtype="<i4").tobytes()).decode("ascii")


def append_rows(buffer: bytearray, routed_experts: RoutingRows | RoutingCapture, start: int) -> None:
    """Add the rows from `start` on of decoded or still encoded routing to a buffer. Raises WrongRouting."""
    if isinstance(routed_experts, RoutingCapture):
        routed_experts.append_to(buffer, start)
    else:
        buffer += np.ascontiguousarray(routed_experts[start:]).tobytes()


def as_rows(buffer: bytearray, layers: int, top_k: int, dtype: IndexType) -> RoutingRows:
    """(R, L, K) over a buffer, which can grow no more. Raises ValueError when it holds no whole number of rows."""
    return cast(RoutingRows, np.frombuffer(buffer, dtype=dtype).reshape(-1, layers, top_k))


@cache
def _decoder() -> Callable[[str], bytes]:
    """Strict base64: pybase64 where it is installed (several times faster), else the standard library."""
    try:
        import pybase64
    except ImportError:
        return lambda text: binascii.a2b_base64(text, strict_mode=True)
    return lambda text: pybase64.b64decode(text, validate=True)
