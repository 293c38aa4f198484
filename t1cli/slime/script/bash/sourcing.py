"""`source FILE`: which files may be read, and where a path of the cluster's image is found in a checkout."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Final

from t1cli.slime.script.bash.commands import absolute
from t1cli.slime.script.bash.state import State, is_unknown, shown

MAX_BYTES: Final = 1_000_000
_ROOT_MARKS: Final = (".git", "train.py", "pyproject.toml", "setup.py")
_MOST_LEVELS: Final = 6


def script_tree(script: Path) -> Path:
    """The checkout that a script stands in: the nearest directory above it with a mark of one, else its own."""
    own = script.resolve().parent
    for directory in [own, *own.parents][:_MOST_LEVELS]:
        if any((directory / mark).exists() for mark in _ROOT_MARKS):
            return directory
    return own


def read_sourced(path: str, state: State, where: str) -> tuple[str | None, Path]:
    """Text and path of a sourced file; no text when it is unknown, outside the tree, missing or too large."""
    if is_unknown(path):
        state.note(where, f"`source {shown(path)}` was left out: the path is not known")
        return None, Path(path)
    wanted = Path(absolute(path, state))
    found = _inside(wanted, state) or _same_file_in_tree(wanted, state)
    if found is None:
        kind = "outside the script's tree (--allow its directory)" if wanted.exists() else "not found"
        state.note(where, f"`source {path}` was left out: {kind}")
        return None, wanted
    if found.stat().st_size > MAX_BYTES:
        state.note(where, f"`source {path}` was left out: larger than {MAX_BYTES:,} bytes")
        return None, found
    if found != wanted.resolve():
        state.note(where, f"`source {path}` was read from {found}")
    return found.read_text(encoding="utf-8", errors="replace"), found


def _inside(path: Path, state: State) -> Path | None:
    """The real file, links seen through, if it lies below the tree or an allowed directory."""
    real = path.resolve()
    roots = [state.tree.resolve(), *(directory.resolve() for directory in state.allowed)]
    return real if real.is_file() and any(root in real.parents for root in roots) else None


def _same_file_in_tree(path: Path, state: State) -> Path | None:
    """`/root/slime/scripts/models/x.sh` of an image is `scripts/models/x.sh` of the checkout."""
    parts = PurePosixPath(path).parts[1:]
    for first in range(len(parts) - 1):
        found = _inside(state.tree.joinpath(*parts[first:]), state)
        if found is not None and ".." not in parts:
            return found
    return None
