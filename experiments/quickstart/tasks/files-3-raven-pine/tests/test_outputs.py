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


def test_step_1_moved():
    assert text('meadow_hazel.txt') == 'grape\n'


def test_step_1_source_gone():
    assert is_absent('raven_pine.txt')


def test_step_2_deleted():
    assert is_absent('raven_apron.txt')
    assert text('raven_apron.csv') == 'bamboo crane\n'


def test_step_3_deleted():
    assert is_absent('candle_iris.txt')
    assert text('candle_iris.csv') == 'apple\n'
