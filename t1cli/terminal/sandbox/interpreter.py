"""The Python that verifiers run with: this environment's interpreter and pytest, shown read-only in a private root."""

from __future__ import annotations

import importlib.util
import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

_PACKAGES = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "ctrf")
_PREFIX = "/opt/t1/python"


@dataclass(frozen=True)
class VerifierPython:
    """Where the interpreter is inside, and which host paths have to be there for it."""

    executable: str
    binds: tuple[tuple[str, str], ...]
    """Host path and path inside, all read-only."""
    site_packages: str
    """Where the packages are inside."""


def make_verifier_python(directory: Path) -> VerifierPython:
    """Lay out a small environment in `directory`: this interpreter, and of its packages only what pytest needs.

    No `.pth` file of the real environment is seen, and nothing of it that an agent could be curious about.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = Path("lib") / version / "site-packages"
    base = Path(os.path.realpath(sys.executable))
    binds = [(str(directory), _PREFIX)]
    (directory / packages).mkdir(parents=True, exist_ok=True)
    (directory / "bin").mkdir(exist_ok=True)
    # Several processes may lay out one directory at once, and sandboxes that read it may be live already.
    aside = directory / f".pyvenv.cfg.{os.getpid()}.{secrets.token_hex(4)}"
    aside.write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n", "utf-8")
    aside.replace(directory / "pyvenv.cfg")
    # A directory may be older than this interpreter: the link follows it, as the configuration does.
    aside = directory / "bin" / f".python.{os.getpid()}.{secrets.token_hex(4)}"
    aside.symlink_to(base)
    aside.replace(directory / "bin" / "python")
    for name in _PACKAGES:
        source = _location(name)
        if source is not None:
            target = directory / packages / source.name
            target.mkdir(exist_ok=True) if source.is_dir() else target.touch()
            binds.append((str(source), f"{_PREFIX}/{packages}/{source.name}"))
    if not sys.base_prefix.startswith("/usr"):
        binds.append((sys.base_prefix, sys.base_prefix))
    return VerifierPython(f"{_PREFIX}/bin/python", tuple(binds), f"{_PREFIX}/{packages}")


def _location(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return None
    origin = Path(spec.origin)
    return origin.parent if origin.name == "__init__.py" else origin
