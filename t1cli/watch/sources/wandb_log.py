"""W&B's own `.wandb` log, read without W&B: LevelDB blocks, CRC, and the few protobuf fields that matter.

A file is a 7-byte header and blocks of 32 KiB with records (crc32, length, type, data) that may be split over blocks.
A record that is incomplete, or whose checksum does not fit yet, is the torn tail of a living or killed writer: reading
stops before it and goes on there later.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

HEADER_BYTES = 7
BLOCK_BYTES = 32 * 1024
RECORD_HEADER = struct.Struct("<IHB")
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


@dataclass(frozen=True)
class LogRecord:
    """One record and where the next one begins."""

    data: bytes
    next_offset: int


def read_records(path: Path, offset: int = HEADER_BYTES) -> Iterator[LogRecord]:
    """Whole records from an offset on; stops silently at a torn tail."""
    with path.open("rb") as file:
        if not file.read(HEADER_BYTES).startswith(b":W&B"):
            return
        file.seek(offset)
        parts: list[bytes] = []
        for kind, data, end in _pieces(file, offset):
            if kind in (FULL, FIRST):
                parts.clear()
            parts.append(data)
            if kind in (FULL, LAST):
                yield LogRecord(b"".join(parts), end)


def _pieces(file: BinaryIO, at: int) -> Iterator[tuple[int, bytes, int]]:
    """Kind, data and end of each physical record from `at` on, read one at a time, up to a torn one."""
    while True:
        left = BLOCK_BYTES - at % BLOCK_BYTES
        if left < RECORD_HEADER.size:
            at += len(file.read(left))
            if at % BLOCK_BYTES:
                return
            continue
        head = file.read(RECORD_HEADER.size)
        if len(head) < RECORD_HEADER.size:
            return
        checksum, length, kind = RECORD_HEADER.unpack(head)
        data = file.read(length)
        if len(data) < length or kind not in (FULL, FIRST, MIDDLE, LAST) or not _fits(checksum, kind, data):
            return
        at += RECORD_HEADER.size + length
        yield kind, data, at


def _fits(checksum: int, kind: int, data: bytes) -> bool:
    return zlib.crc32(data, zlib.crc32(bytes([kind]))) == checksum


def fields(message: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Field numbers and raw values of one protobuf message. Raises ValueError on what is no message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield number, value - (1 << 64) if value >> 63 else value
        elif wire == 1:
            yield number, struct.unpack_from("<d", message, at)[0]
            at += 8
        elif wire == 2:
            length, at = _varint(message, at)
            yield number, message[at : at + length]
            at += length
        elif wire == 5:
            yield number, struct.unpack_from("<f", message, at)[0]
            at += 4
        else:
            raise ValueError(f"wire type {wire}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message):
            raise ValueError("torn varint")
        byte = message[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at
