"""Tracker files that are whole by their checksums and yet nothing that the tracker writes; pipes among them."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import pytest

from t1cli.watch.sources.beside_logs import BesideLogs
from t1cli.watch.sources.tensorboard_files import TensorboardFiles
from t1cli.watch.sources.wandb_offline import WandbOffline


def field(number: int, content: bytes) -> bytes:
    """One length-delimited protobuf field of fewer than 16,384 bytes."""
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    return bytes([number << 3 | 2]) + length + content


def history(**items: bytes) -> bytes:
    """A history record; names have no slash here."""
    return field(
        2,
        b"".join(field(1, field(1, key.encode()) + b"\x82\x01" + field(1, value)[1:]) for key, value in items.items()),
    )


def log_of(*messages: bytes) -> bytes:
    records = (
        struct.pack("<IHB", zlib.crc32(message, zlib.crc32(b"\x01")), len(message), 1) + message for message in messages
    )
    return b":W&B\0\0\0" + b"".join(records)


FOREIGN = {
    "no JSON": history(loss=b"{"),
    "nested beyond reason": history(loss=b"[" * 5000),
    "a number of 5,000 digits": history(loss=b"9" * 5000),
    "eight bytes announced, two there": b"\x09ab",
    "four bytes announced, one there": b"\x0da",
    "no end of a number": b"\xff" * 40,
    "a wire type that does not exist": b"\x0f",
}


@pytest.mark.parametrize("message", FOREIGN.values(), ids=FOREIGN)
def test_a_record_that_wandb_does_not_write_is_passed_over(message: bytes, tmp_path: Path) -> None:
    first, second = (history(_step=str(step).encode(), loss=b"0.5") for step in (1, 2))
    (tmp_path / "run.wandb").write_bytes(log_of(first, message, second))
    assert [(row.step, row.values["loss"]) for row in WandbOffline(tmp_path).poll()] == [(1, 0.5), (2, 0.5)]


def test_a_record_that_tensorboard_does_not_write_is_passed_over(tmp_path: Path) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    with (tmp_path / "events.out.tfevents.1.host").open("wb") as file:
        writer = RecordWriter(file)
        for step in (1, 2):
            value = Summary.Value(tag="rollout/reward", simple_value=0.5)
            writer.write(Event(step=step, summary=Summary(value=[value])).SerializeToString())
            writer.write(b"\x0f\xff\xff")
    assert [row.step for row in TensorboardFiles(tmp_path).poll()] == [1, 2]


def test_pipes_and_directories_with_a_trackers_name_are_not_opened(tmp_path: Path) -> None:
    for name in ("a.wandb", "events.out.tfevents.1.host"):
        os.mkfifo(tmp_path / name)
        (tmp_path / "below" / name).mkdir(parents=True)
    assert WandbOffline(tmp_path).poll() == () and TensorboardFiles(tmp_path).poll() == ()


def test_pipes_and_devices_among_a_runs_logs_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "campaign.log")
    (tmp_path / "job.log").symlink_to("/dev/zero")
    (tmp_path / "process.log").mkdir()
    (tmp_path / "real.log").write_text("a line\n")
    source = BesideLogs(WandbOffline(tmp_path), tmp_path)
    assert source.poll() == () and [path.name for path in source.logs] == ["real.log"]
