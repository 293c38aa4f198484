"""Results are added to records only: a file of the user's that is named by mistake stays as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from t1cli.errors import BadInput
from t1cli.terminal.tasks.record_place import require_place

LINE = json.dumps({"name": "a", "digest": "0" * 64, "problems": []})


@pytest.mark.parametrize(
    "content",
    [
        b"name: quickstart\n",
        b'{\n "format_version": 1,\n "digest": "x"\n}\n',
        b'{"name": "package"}\n',
        b"\x00\xff" * 50,
        b"[1]\n",
    ],
)
def test_a_file_that_is_no_record_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(content)
    with pytest.raises(BadInput, match="is no record"):
        require_place(tmp_path / "mine")
    assert (tmp_path / "mine").read_bytes() == content


@pytest.mark.parametrize(
    "content", ["", "\n", LINE + "\n", LINE + "\n" + LINE[:20], LINE[:30], "\0\0\0\n" + LINE + "\n"]
)
def test_a_record_goes_on_whatever_a_crash_has_left_of_it(content: str, tmp_path: Path) -> None:
    (tmp_path / "record.jsonl").write_text(content)
    require_place(tmp_path / "record.jsonl")
    require_place(tmp_path / "new.jsonl")
