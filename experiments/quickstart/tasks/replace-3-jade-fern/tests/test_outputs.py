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


def test_step_1_old_word_gone():
    assert text('jade_fern.txt').strip()
    assert 'fern' not in text('jade_fern.txt')


def test_step_1_replaced():
    assert text('jade_fern.txt') == 'jasmine 8\nbrick 7\nbloom brick\n'


def test_step_2_old_word_gone():
    assert text('falcon_robin.txt').strip()
    assert 'plum' not in text('falcon_robin.txt')


def test_step_2_replaced():
    assert text('falcon_robin.txt') == 'canyon 7\ncactus 2\nonyx cactus\n'


def test_step_3_old_word_gone():
    assert text('cliff_saffron.txt').strip()
    assert 'cobalt' not in text('cliff_saffron.txt')


def test_step_3_replaced():
    assert text('cliff_saffron.txt') == 'ginger 2\nbadge 7\nalmond badge\n'
