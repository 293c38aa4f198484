"""storage: a full, a read-only and a memory disk for real, and roles that would share a directory."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from t1cli.preflight.probes.places import PREFIX, places
from tests.unit.preflight.conftest import Ask, MakeContext, nodes, one

PLACES = "t1cli.preflight.probes.places:places"
ROOT = Path(__file__).parents[3]
GIB = 1024**3
bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap to make a small disk with")


def on_a_small_disk(before: str) -> dict[str, Any]:
    """The probe's answer for /small, a file system of 256 KiB, after `before` was run there."""
    program = (
        f"import json, os\n{before}\n"
        "from t1cli.preflight.probes.places import places\n"
        "print(json.dumps(places({'runs': '/small/runs', 'checkpoints': '/'})))"
    )
    # A directory to mount on has to exist below a read-only root, so one tmpfs stands on another.
    small = ["--tmpfs", "/mnt", "--size", "262144", "--tmpfs", "/mnt/small"]
    command = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *small]
    program = program.replace("/small", "/mnt/small")
    done = subprocess.run(
        [*command, "--chdir", str(ROOT), sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


FILL = """
try:
    with open('/small/filler', 'wb') as file:
        while True:
            file.write(b'x' * 4096)
            file.flush()
except OSError:
    pass
"""


@bubblewrap
@pytest.mark.catalogue("M10")
def test_a_really_full_and_a_read_only_disk(context_of: MakeContext, ask: Ask) -> None:
    said = on_a_small_disk(FILL)
    assert said["runs"]["problem"] == "No space left on device" and said["runs"]["free"] == 0
    assert said["runs"]["kind"] == "tmpfs"
    assert said["checkpoints"]["problem"] == "Read-only file system"
    context = context_of("quickstart", fleet=one(PLACES, said))
    saw = ask("storage.writable", context)
    assert saw.status == "fail" and "No space left" in saw.found and "Read-only" in saw.found
    assert ask("storage.disk", context).status == "fail"
    assert ask("storage.file_system", context).status == "warn"
    t1 = context_of("t1-strategy15k", fleet=one(PLACES, said))
    assert ask("storage.file_system", t1).status == "fail"


@bubblewrap
def test_an_empty_small_disk_is_writable_and_nothing_is_left_on_it() -> None:
    said = on_a_small_disk("")
    assert said["runs"]["problem"] == "" and said["runs"]["locks"] is True
    assert said["runs"]["directory"] == "/mnt/small" and said["runs"]["exists"] is False


@pytest.mark.catalogue("M10")
def test_space_for_the_planned_saves(context_of: MakeContext, ask: Ask) -> None:
    """3,184 GiB of saves in the T1 campaign."""
    roomy = {
        "directory": "/shared",
        "free": 10_000 * GIB,
        "mount": "/shared",
        "kind": "ext4",
        "locks": True,
        "problem": "",
        "inodes_free": 10**9,
    }
    short = {**roomy, "free": 2_000 * GIB}
    context = context_of("t1-strategy15k", fleet=nodes(PLACES, {"runs": roomy}, {"runs": short}))
    saw = ask("storage.disk", context)
    assert saw.status == "fail" and saw.found.startswith("node-1: runs: 2000.0 GiB free at /shared")
    assert ask("storage.disk", context_of("t1-strategy15k", fleet=nodes(PLACES, {"runs": roomy}))).status == "pass"
    few = {**roomy, "inodes_free": 1000}
    assert ask("storage.inodes", context_of("quickstart", fleet=one(PLACES, {"runs": few}))).status == "fail"
    grown = {**roomy, "inodes_free": None}
    assert ask("storage.inodes", context_of("quickstart", fleet=one(PLACES, {"runs": grown}))).status == "pass"


def test_a_disk_without_locks_is_refused(context_of: MakeContext, ask: Ask, tmp_path: Path) -> None:
    said = places({"runs": str(tmp_path)})
    assert said["runs"]["locks"] is True and list(tmp_path.iterdir()) == []
    said["runs"] |= {"locks": False, "kind": "nfs"}
    saw = ask("storage.file_system", context_of("quickstart", fleet=one(PLACES, said)))
    assert saw.status == "fail" and "no file locks" in saw.found


@pytest.fixture
def without_nameless_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """As NFS and some Lustre answer."""
    real = os.open

    def refusing(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", refusing)


def test_what_a_killed_probe_left_is_removed_and_nothing_else(tmp_path: Path, without_nameless_files: None) -> None:
    for name in (f"{PREFIX}old", f"{PREFIX}new", "mine"):
        (tmp_path / name).touch()
    for name in (f"{PREFIX}old", "mine"):
        os.utime(tmp_path / name, (time.time() - 7200,) * 2)
    said = places({"runs": str(tmp_path)})
    assert said["runs"]["problem"] == "" and said["runs"]["locks"] is True
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{PREFIX}new", "mine"]


def test_another_nodes_probe_may_take_the_file_away_first(
    tmp_path: Path, without_nameless_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All nodes probe one shared directory at once, and pids of containers are alike."""
    real = Path.unlink

    def overtaken(path: Path, missing_ok: bool = False) -> None:
        real(path)
        real(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", overtaken)
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(2):
        assert places({"runs": str(tmp_path)})["runs"]["problem"] == ""
    assert list(tmp_path.iterdir()) == [] and set(os.listdir("/proc/self/fd")) == before


def test_a_name_that_stays_leaks_no_descriptor(
    tmp_path: Path, without_nameless_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    before = set(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", stale)
        assert places({"runs": str(tmp_path)})["runs"]["problem"] == "Stale file handle"
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.catalogue("C2")
@pytest.mark.parametrize("critic", ["a/inner", "link", "other/../a"])
def test_a_critic_in_the_actors_directory_is_refused(
    context_of: MakeContext, ask: Ask, tmp_path: Path, critic: str
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    sets = (f"checkpoint.actor_dir={tmp_path / 'a'}", f"checkpoint.critic_dir={tmp_path / critic}")
    apart = (sets[0], f"checkpoint.critic_dir={tmp_path / 'b'}")
    assert ask("checkpoints.directories", context_of("quickstart", *sets)).status == "fail"
    assert ask("checkpoints.directories", context_of("quickstart", *apart)).status == "pass"
