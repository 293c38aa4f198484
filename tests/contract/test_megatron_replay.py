"""Megatron-core's real RouterReplay on CPU: own routes give the identical loss, other routes another one."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("megatron_rank.py")
# Building Megatron takes seconds on an idle machine, minutes on one that is shared by many.
PATIENCE_SECONDS = 900
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("megatron") is None, reason="megatron-core is not installed: pip install .[oracle]"),
]


def ranks(tmp_path: Path, *, world: int, tp: int, ep: int) -> list[dict[str, Any]]:
    """What every rank saw. Raises AssertionError with the output of a rank that failed."""
    argv = [sys.executable, "-W", "ignore", str(PROGRAM)]
    shared = [str(world), str(tp), str(ep), str(tmp_path / "rendezvous")]
    started = [
        subprocess.Popen([*argv, str(rank), *shared], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in range(world)
    ]
    found = []
    try:
        for process in started:
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
            assert process.returncode == 0, err[-3000:]
            found.append(json.loads(out.splitlines()[-1]))
    finally:
        for process in started:
            process.kill()
            process.wait()
    return found


@pytest.mark.parametrize(("world", "tp", "ep"), [(1, 1, 1), (2, 2, 1), (2, 1, 2)], ids=["one rank", "TP2", "EP2"])
def test_own_routes_give_the_identical_loss_and_other_routes_another(tmp_path, world: int, tp: int, ep: int) -> None:
    for seen in ranks(tmp_path, world=world, tp=tp, ep=ep):
        assert seen["own"] == seen["free"]
        assert abs(seen["other"] - seen["free"]) > 1e-4
        assert abs(seen["shifted"] - seen["free"]) > 1e-5, "rows of the neighbours must not pass for one's own"
        assert seen["gradient_error"] < 1e-5 and seen["gradient_size"] > 0
        assert seen["layers"] == [0, 1] and seen["rows_left"] == 0
