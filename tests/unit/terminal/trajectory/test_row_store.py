"""Saved rows come back bit for bit, and nothing else is read."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.errors import BadInput
from t1cli.terminal.trajectory.row import Audit, TrainingRow, TurnRecord
from t1cli.terminal.trajectory.store import load_rows, save_rows


def row(tokens: int, *, routing: bool = True, seed: int = 0) -> TrainingRow:
    random = np.random.default_rng(seed)
    return TrainingRow(
        trial_id=f"trial-{seed}",
        group_id=seed,
        task="täsk",
        family="f",
        tokens=random.integers(0, 99999, tokens).astype(np.int32),
        response_start=1,
        loss_mask=random.integers(0, 2, tokens).astype(np.uint8),
        log_probs=random.normal(size=tokens).astype(np.float32),
        routed_experts=random.integers(0, 8, (tokens - 1, 3, 2)).astype(np.uint8) if routing else None,
        reward=0.1 + seed,
        outcome="scored",
        weight_versions=(1, 2),
        stop="turns",
        audit=Audit(
            turns=2,
            strict=1,
            sampled_tokens=3,
            trained_tokens=3,
            masked={"repair": 1},
            records=(
                TurnRecord(0, "strict", start=1, sampled=2, checksum=7),
                TurnRecord(1, "normalized", start=4, sampled=1, checksum=9, rule="a rule", cell=(2, 1), retokenized=2),
            ),
            retokenized_tokens=2,
        ),
    )


def same(left: TrainingRow, right: TrainingRow) -> bool:
    return all(
        np.array_equal(getattr(left, f.name), getattr(right, f.name))
        and getattr(getattr(left, f.name), "dtype", None) == getattr(getattr(right, f.name), "dtype", None)
        for f in fields(TrainingRow)
    )


@pytest.mark.parametrize(
    "rows", [(), (row(5),), (row(5), row(2, seed=1), row(9, routing=False, seed=2)), (row(4, routing=False),)]
)
def test_rows_come_back_bit_for_bit(tmp_path: Path, rows: tuple[TrainingRow, ...]) -> None:
    path = tmp_path / "rollouts" / "rollout_000001.npz"
    save_rows(path, rows)
    loaded = load_rows(path)
    assert len(loaded) == len(rows)
    assert all(same(a, b) for a, b in zip(rows, loaded, strict=True))
    assert [p.name for p in path.parent.iterdir()] == [path.name], "nothing is left aside"


def test_half_a_file_and_foreign_files_are_located_errors(tmp_path: Path) -> None:
    path = tmp_path / "r.npz"
    save_rows(path, (row(50),))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(BadInput):
        load_rows(path)
    path.write_text("hello")
    with pytest.raises(BadInput):
        load_rows(path)
    np.savez(path, head=np.asarray([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(BadInput):
        load_rows(path)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_damaged_bytes_are_a_located_error_or_still_rows(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "r.npz"
        save_rows(path, (row(9),))
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(bytes(content[: data.draw(st.integers(1, len(content)))]))
        with contextlib.suppress(BadInput):
            assert len(load_rows(path)) <= 1


@pytest.mark.parametrize("head", [b"[]", b"3", b'{"format_version":1}', b'{"format_version":1,"rows":[{"a":1}]}'])
def test_an_archive_of_somebody_else_is_a_located_error(head: bytes, tmp_path: Path) -> None:
    path = tmp_path / "r.npz"
    np.savez(path, head=np.frombuffer(head, dtype=np.uint8), lengths=np.asarray([1]))
    with pytest.raises(BadInput, match="no readable rollout") as raised:
        load_rows(path)
    assert raised.value.diagnostics[0].where == str(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "r.npz")
    with pytest.raises(BadInput, match="no such file"):
        load_rows(tmp_path / "r.npz")
