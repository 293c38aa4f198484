"""The verifiers' interpreter is laid out once, however many processes of a node do so at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from t1cli.terminal.sandbox.interpreter import VerifierPython, make_verifier_python


def test_several_may_lay_out_one_directory_at_once(tmp_path: Path) -> None:
    together = Barrier(8)

    def make(place: Path) -> VerifierPython:
        together.wait(60)
        return make_verifier_python(place)

    with ThreadPoolExecutor(8) as pool:
        for round_number in range(25):
            place = tmp_path / str(round_number)
            made = list(pool.map(make, [place] * 8))
            assert made == made[:1] * 8
            assert {entry.name for entry in place.iterdir()} == {"bin", "lib", "pyvenv.cfg"}


def test_a_directory_of_an_older_interpreter_follows_this_one(tmp_path: Path) -> None:
    made = make_verifier_python(tmp_path)
    link = tmp_path / "bin" / "python"
    now = link.readlink()
    link.unlink()
    link.symlink_to("/usr/bin/python-of-yesterday")
    assert make_verifier_python(tmp_path) == made and link.readlink() == now
    assert [entry.name for entry in link.parent.iterdir()] == ["python"]
