"""Files of any length are read a piece at a time, or refused with their limit."""

from __future__ import annotations

import os
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from t1cli.errors import BadInput
from t1cli.watch.sources.csv_file import CsvFile
from t1cli.watch.sources.metrics_file import MetricsFile
from t1cli.watch.sources.wandb_log import BLOCK_BYTES, FIRST, FULL, LAST, MIDDLE, read_records

MIB = 2**20


def most_held_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_long_metrics_file_is_never_held_as_text(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with path.open("wb") as file:
        for step in range(160):
            file.write(b'{"rollout/step": %d, "a": 1, "text": "%s"}\n' % (step, b"x" * 200_000))
    source, found = MetricsFile(path), list[int]()
    held = most_held_bytes(lambda: found.extend(row.step for row in source.poll()))
    assert found == list(range(160)) and path.stat().st_size > 30 * MIB and held < 5 * MIB


def test_a_line_beyond_all_measure_is_no_row_and_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t1cli.watch.sources.metrics_file.LONGEST_LINE_BYTES", 64)
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"rollout/step": 1, "a": 1}\n' + b"x" * 500)
    source = MetricsFile(path)
    assert [row.step for row in source.poll()] == [1] and source.poll() == ()
    with path.open("ab") as file:
        file.write(b'\n{"rollout/step": 2, "a": 1}\n')
    assert [row.step for row in source.poll()] == [2]


def wandb_file(path: Path, records: list[bytes]) -> None:
    """As W&B writes: a header, then records that are split where a block of 32 KiB ends."""
    with path.open("wb") as file:
        file.write(b":W&B\xe2\x1b\x00")
        for record in records:
            left, first = record, True
            while left or first:
                room = BLOCK_BYTES - file.tell() % BLOCK_BYTES
                if room < 7:
                    file.write(bytes(room))
                    continue
                piece, left = left[: room - 7], left[room - 7 :]
                kind = {(True, True): FULL, (True, False): FIRST, (False, True): LAST, (False, False): MIDDLE}
                kind_of_it = kind[(first, not left)]
                checksum = zlib.crc32(piece, zlib.crc32(bytes([kind_of_it])))
                file.write(struct.pack("<IHB", checksum, len(piece), kind_of_it) + piece)
                first = False


@pytest.mark.parametrize("sizes", [[1, 0, 5], [32_747, 3, 32_754, 32_755], [70_000, 10]])
def test_split_records_are_put_together_and_read_on_from_any(sizes: list[int], tmp_path: Path) -> None:
    records = [bytes([65 + index]) * size for index, size in enumerate(sizes)]
    wandb_file(tmp_path / "run.wandb", records)
    found = list(read_records(tmp_path / "run.wandb"))
    assert [record.data for record in found] == records
    for index, record in enumerate(found):
        assert [r.data for r in read_records(tmp_path / "run.wandb", record.next_offset)] == records[index + 1 :]


def test_a_long_wandb_log_is_never_held_as_a_whole(tmp_path: Path) -> None:
    wandb_file(tmp_path / "run.wandb", [b"x" * 100_000] * 300)
    lengths = list[int]()
    held = most_held_bytes(lambda: lengths.extend(len(record.data) for record in read_records(tmp_path / "run.wandb")))
    assert lengths == [100_000] * 300 and held < 2 * MIB


def test_a_csv_that_is_too_long_or_none_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    path.write_text("step,a\n1,2\n3," + "x" * 200_000 + "\n")
    with pytest.raises(BadInput, match="no CSV: field larger") as refused:
        CsvFile(path)
    assert refused.value.diagnostics[0].where == f"{path}:3"
    path.write_text("x" * 200_000)
    with pytest.raises(BadInput, match="no CSV: field larger"):
        CsvFile(path)
    os.truncate(path, 1 << 40)
    with pytest.raises(BadInput, match="more than 268,435,456 bytes"):
        CsvFile(path)
