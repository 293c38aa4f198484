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


def test_step_1_directory():
    assert is_directory('quartz_anchor')


def test_step_2_written():
    assert text('quartz_anchor/pine.txt') == 'brick\n'


def test_step_3_mode():
    assert mode('mint_reef.txt') == '600'


def test_step_4_old_word_gone():
    assert text('cobalt_crane.txt').strip()
    assert 'mint' not in text('cobalt_crane.txt')


def test_step_4_replaced():
    assert text('cobalt_crane.txt') == 'honey 6\ncanyon 2\nclay canyon\n'
