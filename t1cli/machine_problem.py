"""Which failures of the operating system are the fault of a name or of the machine, and not of t1."""

from __future__ import annotations

import errno
import os
from typing import Final

from t1cli.errors import BadInput, CouldNotAsk, T1Error

_NO_SUCH_INPUT: Final = {errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.ESPIPE}
"""The user named something that no file can be, or a pipe or socket where a file is wanted."""
_ENVIRONMENT: Final = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EAGAIN,
    errno.ESTALE,
    errno.EBADF,
    errno.EBUSY,
    errno.ENODEV,
    errno.ENOLCK,
    errno.ENOTCONN,
    errno.EOPNOTSUPP,
    errno.ETIMEDOUT,
    errno.EREMOTEIO,
}
"""The machine said no; t1 did nothing wrong, and the same command works once the machine allows it."""


def machine_problem(problem: OSError) -> T1Error | None:
    """What no room handled, as an error to act on; None when it may well be a bug."""
    # Of a file that is written aside and renamed, the second name is the one that was asked for.
    name = problem.filename2 or problem.filename
    path = os.fsdecode(name) if isinstance(name, str | bytes) else ""
    reason = problem.strerror or str(problem)
    # A directory was to be made where a file lies, or a link that leads nowhere.
    in_the_way = problem.errno == errno.EEXIST and os.path.lexists(path) and not os.path.isdir(path)
    if problem.errno in _NO_SUCH_INPUT or in_the_way:
        return BadInput(f"no file can be used at {path or 'a path that was given'}: {reason}", path, "name another")
    if problem.errno in _ENVIRONMENT:
        what = f"cannot use {path}" if path else "cannot write the answer or use a file"
        return CouldNotAsk(f"{what}: {reason}", path, "the same command works once the machine allows it")
    return None
