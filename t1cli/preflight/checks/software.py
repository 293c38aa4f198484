"""software: installed versions against what was tested, and settings that would be inherited."""

from __future__ import annotations

import os
import shutil
from importlib.metadata import PackageNotFoundError, version

from t1cli.preflight.check import NOT_A_NODE, Check, Context, Saw, failed, passed, skipped, warned

EMBEDDED_PACKAGES = ("torch", "numpy", "safetensors", "ray", "httpx", "uvicorn", "pytest", "pytest-json-ctrf")


def packages(context: Context) -> Saw:
    """The packages that the engine needs are installed; numpy 2 stops every slime trainer at start."""
    if not context.runs_here:
        return skipped(NOT_A_NODE)
    found = {name: _version(name) for name in EMBEDDED_PACKAGES}
    missing = [name for name, number in found.items() if number is None]
    if missing:
        return failed(
            "missing: " + ", ".join(missing), "the embedded engine's packages", 'pip install "t1cli[embedded]"'
        )
    return passed(", ".join(f"{name} {number}" for name, number in found.items()), "the embedded engine's packages")


def allocator(context: Context) -> Saw:
    """expandable_segments excludes the memory saver that PPO's offload needs (torch_memory_saver raises on it)."""
    inherited = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
    if context.spec.engine.kind == "embedded":
        return skipped("the embedded engine allocates no GPU memory")
    if "expandable_segments:True" in inherited.replace(" ", ""):
        return failed(
            f"PYTORCH_CUDA_ALLOC_CONF={inherited} in this environment",
            "no expandable_segments where the trainer is offloaded",
            "unset PYTORCH_CUDA_ALLOC_CONF",
        )
    return passed("no expandable_segments in this environment", "none")


def bubblewrap(context: Context) -> Saw:
    """Local sandboxes are isolated only where bubblewrap is installed."""
    if context.spec.sandbox.kind != "local":
        return skipped(f"sandbox.kind is {context.spec.sandbox.kind}")
    path = shutil.which("bwrap")
    if path is not None:
        return passed(f"bwrap at {path}", "bubblewrap installed")
    if context.spec.sandbox.backend == "bubblewrap":
        return failed("no bwrap on PATH", "bubblewrap, as sandbox.backend asks", "apt-get install bubblewrap")
    return warned(
        "no bwrap on PATH: commands run as plain processes of this user",
        "bubblewrap installed",
        "apt-get install bubblewrap; plain processes isolate nothing and need trusted tasks",
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


CHECKS = (
    Check("software.packages", ("C7",), packages),
    Check("software.allocator", ("M9",), allocator),
    Check("software.bubblewrap", ("R11",), bubblewrap),
)
