"""A directory as a tar file: regular files and directories alone, with modes that do not depend on anybody's umask."""

from __future__ import annotations

import os
import stat
import tarfile
from pathlib import Path


def write_archive(source: Path, archive: Path) -> None:
    """Pack what is under `source`; links and special files are left out."""
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as packed:
        for parent, directories, names in os.walk(source):
            directories.sort()
            for name in (*directories, *sorted(names)):
                _add(packed, Path(parent) / name, source)


def _add(packed: tarfile.TarFile, path: Path, source: Path) -> None:
    found = path.lstat()
    member = tarfile.TarInfo(path.relative_to(source).as_posix())
    executable = stat.S_ISDIR(found.st_mode) or found.st_mode & stat.S_IXUSR
    member.mode, member.mtime = 0o755 if executable else 0o644, int(found.st_mtime)
    if stat.S_ISDIR(found.st_mode):
        member.type = tarfile.DIRTYPE
        packed.addfile(member)
    elif stat.S_ISREG(found.st_mode):
        with path.open("rb") as content:
            member.size = os.fstat(content.fileno()).st_size
            packed.addfile(member, content)
