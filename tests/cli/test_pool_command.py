"""`t1 pool serve` refuses a broken token file before it listens, every line at once, and shows no token."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from t1cli.cli.app import app

SECRET = "Zq7planted-token-0123456789"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"\nus {SECRET}\n\nthem short\n{SECRET}\n", ["tokens:4", "tokens:5", "16 or more characters"]),
        ("\n \n", ["no token in the file"]),
        (b"\xff\xfe", ["cannot read"]),
        # Of what is cut off, half a token might be left, and would be taken for a whole one.
        (f"us {SECRET}\n".encode() + b"#" * (1 << 20), ["more than 1048576 bytes"]),
        (None, ["cannot read"]),
    ],
)
def test_a_broken_token_file_is_refused(content: str | bytes | None, said: list[str], tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    result = CliRunner().invoke(app, ["pool", "serve", "--directory", str(tmp_path), "--token-file", str(path)])
    assert result.exit_code == 2, result.stderr
    assert all(word in result.stderr for word in said), result.stderr
    assert SECRET not in result.stderr + result.stdout


def test_a_server_that_has_leased_nothing_has_nothing_to_sweep(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text("")
    done = CliRunner().invoke(app, ["pool", "sweep", str(tmp_path)])
    assert done.exit_code == 0 and "0 swept" in done.stdout, done.output
    empty = tmp_path / "empty"
    empty.mkdir()
    assert CliRunner().invoke(app, ["pool", "sweep", str(empty)]).exit_code == 2
