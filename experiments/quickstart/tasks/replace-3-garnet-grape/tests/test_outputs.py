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
    assert text('garnet_grape.txt').strip()
    assert 'moss' not in text('garnet_grape.txt')


def test_step_1_replaced():
    assert text('garnet_grape.txt') == 'bronze 5\nivory 6\nmarble ivory\n'


def test_step_2_old_word_gone():
    assert text('coast_jasmine.txt').strip()
    assert 'kettle' not in text('coast_jasmine.txt')


def test_step_2_replaced():
    assert text('coast_jasmine.txt') == 'lake 8\npond 1\nember pond\n'


def test_step_3_old_word_gone():
    assert text('cabin_saffron.txt').strip()
    assert 'lagoon' not in text('cabin_saffron.txt')


def test_step_3_replaced():
    assert text('cabin_saffron.txt') == 'olive 1\naspen 6\ncoast aspen\n'
