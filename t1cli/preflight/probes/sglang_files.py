"""What the installed SGLang's own source says it can do, and which files of it are not as they were installed."""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from t1cli.preflight.probes.trees import swallows_in, touched_by

_SERVER_ARGUMENTS = "sglang/srt/server_args.py"
_ARGUMENT = "enable_return_routed_experts"
_TOLD = 50


def sglang_files(patch: str = "") -> dict[str, Any]:
    """Version, whether its server arguments can be read (null: no), routed experts, and changed files.

    A file is changed when its bytes are not those of the package's own record. `patch` is slime's patch file of
    SGLang: the files that it touches are expected changed. Nothing is imported.
    """
    try:
        found = distribution("sglang")
        text = Path(str(found.locate_file(_SERVER_ARGUMENTS))).read_text(encoding="utf-8", errors="replace")
    except (PackageNotFoundError, OSError):
        return {
            "version": None,
            "server_args": None,
            "routed_experts": False,
            "changed": [],
            "patched": [],
            "swallowing": [],
        }
    changed = _changed(found)
    return {
        "version": found.version,
        "server_args": True,
        "routed_experts": _ARGUMENT in text,
        "changed": changed[:_TOLD],
        "patched": sorted({name.removeprefix("python/") for name in touched_by(Path(patch))}) if patch else [],
        "swallowing": [name for name in changed if swallows_in(Path(str(found.locate_file(name))))][:_TOLD],
    }


def _changed(found: Distribution) -> list[str]:
    """Python files whose digest is not the recorded one; an editable install records none."""
    names = []
    for file in found.files or ():
        if file.suffix == ".py" and file.hash is not None and file.hash.mode == "sha256":
            try:
                digest = hashlib.sha256(Path(str(found.locate_file(file))).read_bytes()).digest()
            except OSError:
                names.append(str(file))
                continue
            if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
                names.append(str(file))
    return sorted(names)
