"""Source trees on a node: at which commit, what was changed, and patches that swallow what must be heard."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t1cli.preflight.probes.programs import ask_program

_MOST_FILES = 200
_MOST_BYTES = 1 << 20
_COMMUNICATION = re.compile(
    r"nccl|torch\.distributed|\bdist\.|all_reduce|all_gather|broadcast\(|barrier\(|ProcessGroup", re.I
)
_SWALLOWED = re.compile(
    r"^(\s*)except\b(?!\s+ImportError)[^\n]*:\s*(?:#[^\n]*)?(?:\n\s*#[^\n]*)*(?:\n\1\s+|\s*)(?:pass|continue)\b", re.M
)
_TRY = re.compile(r"^(\s*)try:[ \t]*(?:#[^\n]*)?$", re.M)


def tree(path: str, patches: Sequence[str] = ()) -> dict[str, Any]:
    """A checkout's commit and changed files. Of `patches`, patch files, every touched file is expected changed."""
    place = Path(path)
    if not place.is_dir():
        return {"exists": False}
    head = _git(place, "rev-parse", "HEAD")
    changed = _changed(place) if head else []
    return {
        "exists": True,
        "commit": head,
        "changed": changed,
        "patched": sorted({file for patch in patches for file in touched_by(Path(patch))}),
        "patch_files": [patch for patch in patches if Path(patch).is_file()],
        "swallowing": [name for name in changed if swallows_in(place / name)],
    }


def trees(asked: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Several trees by name."""
    return {name: tree(**arguments) for name, arguments in asked.items()}


def mentions(path: str, text: str) -> bool | None:
    """Whether a file holds a text; null when it cannot be read."""
    try:
        return text in Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def swallows_communication_errors(source: str) -> bool:
    """Whether a `try` around communication ends in an `except` that does nothing."""
    for handler in _SWALLOWED.finditer(source):
        openings = [found for found in _TRY.finditer(source, 0, handler.start()) if found[1] == handler[1]]
        if openings and _COMMUNICATION.search(source, openings[-1].end(), handler.end()):
            return True
    return False


def swallows_in(path: Path) -> bool:
    """The same of a Python file; false for one that cannot be read."""
    try:
        if path.suffix != ".py" or path.stat().st_size > _MOST_BYTES:
            return False
        return swallows_communication_errors(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return False


def _changed(place: Path) -> list[str]:
    """Tracked files that differ from the commit; untracked ones change nothing that is imported under its own name."""
    said = _git(place, "status", "--porcelain=v1", "-z", "--untracked-files=no")
    names = [entry[3:] for entry in said.split("\0") if len(entry) > 3 and entry[2] == " "]
    return sorted(names)[:_MOST_FILES]


def touched_by(patch: Path) -> list[str]:
    """Files that a patch file touches; none for one that cannot be read."""
    try:
        text = patch.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return re.findall(r"^\+\+\+ b/(\S+)", text, re.MULTILINE)


def _git(place: Path, *arguments: str) -> str:
    # A tree's own configuration may name programs to run; nothing of it is followed.
    safe = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", f"safe.directory={place.resolve()}"]
    return ask_program(["git", *safe, "-C", str(place), *arguments], seconds=30.0).output.strip("\n")
