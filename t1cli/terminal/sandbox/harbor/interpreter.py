"""Which Python has Harbor, and which versions it has."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from typing import Any, Final

from t1cli.errors import CouldNotAsk

TESTED: Final = "0.26.0"
"""Harbor's version that the contract suite passes with; its releases rename arguments."""

OLDEST: Final = (0, 26)
OLDEST_PYTHON: Final = (3, 12)

_HINT: Final = f"python3.12 -m venv DIR && DIR/bin/pip install harbor=={TESTED}, then sandbox.python=DIR/bin/python"
_ASK: Final = """
import importlib.metadata, json, sys
try: harbor = importlib.metadata.version("harbor")
except importlib.metadata.PackageNotFoundError: harbor = None
print(json.dumps({"python": "%d.%d.%d" % sys.version_info[:3], "harbor": harbor}))
"""
_ASK_SECONDS: Final = 30.0


def harbor_python(python: str | None) -> str:
    """The interpreter for Harbor's worker. Raises CouldNotAsk when there is none."""
    if python is not None:
        found = shutil.which(os.path.expanduser(python))
        if found is None:
            raise CouldNotAsk(
                f"no interpreter at {python}",
                where="sandbox.python",
                hint=_HINT,
            )
        # Another session may have to start it from elsewhere. A link stays one: it is what makes a venv.
        return os.path.abspath(found)
    if sys.version_info < OLDEST_PYTHON or importlib.util.find_spec("harbor") is None:
        raise CouldNotAsk(
            f"sandboxes of Harbor need Python 3.12 or newer with its package; this is {sys.version.split()[0]}",
            where="sandbox.python",
            hint=_HINT,
        )
    return sys.executable


def ask_versions(python: str | None) -> dict[str, Any]:
    """`{"python", "harbor", "problem"}` of an interpreter (null: this one), by running it; versions null if unknown."""
    try:
        ran = subprocess.run(
            [os.path.expanduser(python or sys.executable), "-c", _ASK],
            capture_output=True,
            text=True,
            timeout=_ASK_SECONDS,
            check=True,
        )
        return {**json.loads(ran.stdout), "problem": None}
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return {"python": None, "harbor": None, "problem": f"{type(error).__name__}: {error}"}
