import os
import stat
from pathlib import Path

WORK = Path(os.environ.get("T1_ROOT", "") + "/work")


def text(name):
    """The start of a regular file; nothing else is opened, so that a pipe or a device cannot hold the test up."""
    path = WORK / name
    assert path.is_file(), f"{name} is no file"
    with path.open("rb") as file:
        return file.read(65536).decode(errors="replace")


def mode(name):
    return format(stat.S_IMODE((WORK / name).stat().st_mode), "o")


def is_directory(name):
    return (WORK / name).is_dir()


def is_absent(name):
    return not os.path.lexists(WORK / name)


def test_step_1_copied():
    assert text('quartz_lotus.txt') == 'raven lilac\n'
    assert text('apple_basil.txt') == 'raven lilac\n'


def test_step_2_deleted():
    assert is_absent('copper_coast.txt')
    assert text('copper_coast.csv') == 'iris lagoon\n'
