"""The end of a log: as if it were read whole, without reading it whole."""

from __future__ import annotations

import tempfile
from collections import deque
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from t1cli.run import log_tail
from t1cli.run.log_tail import follow, last_lines

LINES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x1c\x1d\x1e\x85\u2028\u2029"), max_size=12))


@given(LINES, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.integers(0, 8), st.integers(1, 9))
@example(["", ""], "\n", True, 1, 1)
def test_the_last_lines_are_those_of_the_whole_file(
    lines: list[str], end: str, ends: bool, count: int, block: int
) -> None:
    text = end.join(lines) + (end if ends else "")
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_tail, "BLOCK", block)
        path = Path(place) / "job.log"
        path.write_bytes(text.encode())
        with path.open(encoding="utf-8", errors="replace") as stream:
            whole = [line.rstrip("\n") for line in deque(stream, maxlen=count)]
        assert list(last_lines(path, count)) == whole
        assert list(follow(path, count=count, goes_on=lambda: False)) == whole


def test_of_a_huge_log_only_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "job.log"
    with path.open("wb") as stream:
        stream.truncate(50 << 30)  # sparse: no byte of it lies on the disk
        stream.seek(0, 2)
        stream.write(b"\n" + b"".join(b"line %d\n" % number for number in range(300)))
    assert list(last_lines(path, 200)) == [f"line {number}" for number in range(100, 300)]
    tail = follow(path, count=1, goes_on=lambda: False)
    assert next(tail) == "line 299"
    with path.open("ab") as stream:
        stream.write(b"x" * (3 * log_tail.BLOCK) + b"\nunfinished")
    assert [len(line) for line in tail] == [3 * log_tail.BLOCK, len("unfinished")]
