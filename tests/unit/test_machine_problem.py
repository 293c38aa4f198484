"""What the operating system refuses is told with its path; only what may be a bug is left."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from t1cli.errors import BadInput, CouldNotAsk
from t1cli.machine_problem import machine_problem


def problem_of(work) -> OSError:
    with pytest.raises(OSError) as raised:
        work()
    return raised.value


@pytest.mark.parametrize("kind", ["file", "dangling", "loop"])
def test_a_directory_cannot_be_made_where_something_else_lies(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "there"
    match kind:
        case "file":
            place.touch()
        case "dangling":
            place.symlink_to("nowhere")
        case _:
            place.symlink_to("there")
    found = machine_problem(problem_of(lambda: place.mkdir(parents=True, exist_ok=True)))
    assert isinstance(found, BadInput) and str(place) in found.message


def test_a_socket_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("there")
        found = machine_problem(problem_of(lambda: Path("there").read_bytes()))
    assert isinstance(found, BadInput) and "there" in found.message


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EMFILE, errno.EBUSY])
def test_the_machine_said_no(number: int) -> None:
    found = machine_problem(OSError(number, os.strerror(number), "/some/file"))
    assert isinstance(found, CouldNotAsk) and "/some/file" in found.message
    assert isinstance(machine_problem(OSError(number, os.strerror(number))), CouldNotAsk)


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ECHILD, errno.EINVAL])
def test_what_may_be_a_bug_stays_one(number: int) -> None:
    assert machine_problem(OSError(number, os.strerror(number), "/some/file")) is None
