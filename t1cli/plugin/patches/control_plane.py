"""Time limits for slime's control-plane HTTP: its engine client waits for ever on an engine that hangs.

The engine actor's module gets a stand-in for `requests` that adds a limit where none is given. Bulk weight transfer
keeps waiting as long as it takes: its length depends on the model, and cutting it off half-way would lose the engine.

(catalogue C6)
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import logging
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final
from urllib.parse import urlsplit

from t1cli.plugin.patches.shape import ENGINE_REQUEST, mismatch

TARGET: Final = ENGINE_REQUEST.module
CONNECT_SECONDS: Final = 10.0
CONTROL_SECONDS: Final = 120.0
MEMORY_SECONDS: Final = 900.0
"""Releasing and resuming GPU memory copies whole models to and from the host."""
_BULK: Final = (
    "update_weights_from_tensor",
    "update_weights_from_distributed",
    "update_weights_from_disk",
    "init_weights_update_group",
    "destroy_weights_update_group",
    "post_process_weights",
    "weights_checker",
)
_MEMORY: Final = ("release_memory_occupation", "resume_memory_occupation", "flush_cache")
_METHODS: Final = ("get", "post", "put", "delete", "head", "request")
logger = logging.getLogger(__name__)


def time_limit(url: str) -> tuple[float, float | None]:
    """(connect, read) seconds of one call by its endpoint; None is no limit."""
    endpoint = urlsplit(url).path.strip("/").split("/")[0]
    if endpoint in _BULK:
        return CONNECT_SECONDS, None
    return CONNECT_SECONDS, MEMORY_SECONDS if endpoint in _MEMORY else CONTROL_SECONDS


class BoundedRequests:
    """Stands in for the `requests` module: the same names, and a time limit on every call that has none."""

    def __init__(self, requests: ModuleType) -> None:
        self._requests = requests

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._requests, name)
        if name not in _METHODS:
            return found

        def bounded(*args: Any, **kwargs: Any) -> Any:
            url = kwargs.get("url", args[1] if name == "request" and len(args) > 1 else args[0] if args else "")
            if kwargs.get("timeout") is None:
                kwargs["timeout"] = time_limit(str(url))
            return found(*args, **kwargs)

        return bounded


def bound(module: Any) -> str:
    """Put the stand-in into slime's engine module; returns why not, or nothing. Doing it twice does it once."""
    problem = mismatch(module, ENGINE_REQUEST)
    if problem:
        return problem
    if not isinstance(module.requests, BoundedRequests):
        module.requests = BoundedRequests(module.requests)
    return ""


def patch_now() -> None:
    """Bound the engine client where it is loaded already (rollout manager)."""
    module = sys.modules.get(TARGET)
    if module is not None:
        _say(bound(module))


def patch_on_import() -> None:
    """Bound the engine client as soon as a process loads it; costs other processes nothing."""
    if TARGET in sys.modules:
        patch_now()
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds slime's engine module once, by the finders behind it, and patches what they load."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec whose loader patches the module after running it; None for every other module."""
        if fullname != TARGET:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _PatchingLoader(spec.loader)
        return spec


class _PatchingLoader(importlib.abc.Loader):
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _say(bound(module))

    def __getattr__(self, name: str) -> Any:
        # inspect.getsource asks the loader for the source.
        return getattr(self._loader, name)


def _say(problem: str) -> None:
    if problem:
        logger.warning("slime's control-plane HTTP stays unbounded: %s", problem)
