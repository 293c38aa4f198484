"""Installed packages of a node by their metadata and files: nothing is imported, so nothing is run."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

from t1cli.preflight.probes.programs import ask_program

_MOST_LIBRARIES = 40


def packages(names: Sequence[str]) -> dict[str, Any]:
    """Version of each package (null: not installed), and of Python itself."""
    return {"python": ".".join(map(str, sys.version_info[:3])), **{name: installed(name) for name in names}}


def installed(name: str) -> str | None:
    """A package's version by its metadata."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def modules(names: Sequence[str], paths: Sequence[str] = ()) -> dict[str, bool]:
    """Whether a top-level module could be found, with `paths` looked at first as PYTHONPATH would be."""
    return {name: _findable(name, paths) for name in names}


def torch_cuda() -> str | None:
    """The CUDA version that the installed torch was built for, from its version.py; null for none."""
    try:
        place = distribution("torch").locate_file("torch/version.py")
        text = Path(str(place)).read_text(encoding="utf-8", errors="replace")
    except (PackageNotFoundError, OSError):
        return None
    found = re.search(r"^cuda\b[^=\n]*=\s*['\"]([\d.]+)['\"]", text, re.MULTILINE)
    return found[1] if found else None


def missing_libraries(names: Sequence[str]) -> dict[str, list[str]]:
    """By package: shared libraries that its own compiled files ask for and the loader does not find.

    torch's own library directory counts as on the path, because torch is imported first.
    """
    extra = _torch_libraries()
    return {name: found for name in names if (found := _missing(name, extra)) is not None}


def memory_saver() -> dict[str, Any]:
    """torch_memory_saver: its version, its preload libraries, and the allocator settings of this environment."""
    try:
        files = [str(file) for file in distribution("torch-memory-saver").files or ()]
    except PackageNotFoundError:
        files = []
    return {
        "version": installed("torch-memory-saver"),
        "preload": sorted({os.path.basename(file) for file in files if "preload" in file and file.endswith(".so")}),
        "allocator": {
            name: os.environ[name] for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF") if name in os.environ
        },
    }


def _findable(name: str, paths: Sequence[str]) -> bool:
    for path in paths:
        place = Path(path)
        if (place / name / "__init__.py").is_file() or (place / f"{name}.py").is_file():
            return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _missing(name: str, extra: str) -> list[str] | None:
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return None
    libraries = [file for file in found.files or () if file.name.endswith(".so") or ".so." in file.name]
    lacking: set[str] = set()
    own = {file.name for file in libraries}
    for file in libraries[:_MOST_LIBRARIES]:
        lacking |= set(
            not_found(ask_program(["env", f"LD_LIBRARY_PATH={extra}", "ldd", str(found.locate_file(file))]).output)
        )
    return sorted(lacking - own)


def not_found(output: str) -> list[str]:
    """Libraries that `ldd` says are not found."""
    return re.findall(r"^\s*(\S+) => not found", output, re.MULTILINE)


def _torch_libraries() -> str:
    places = [os.environ.get("LD_LIBRARY_PATH", "")]
    try:
        root = Path(str(distribution("torch").locate_file("")))
        places += [str(root / "torch/lib"), *map(str, sorted(root.glob("nvidia/*/lib")))]
    except PackageNotFoundError:
        pass
    return ":".join(place for place in places if place)
