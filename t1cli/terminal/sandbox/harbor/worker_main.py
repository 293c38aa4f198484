"""Starts the worker in another Python: `python -P worker_main.py SOCKET PARENT`.

Run by path, in an interpreter that has Harbor and need not have t1 installed. Only the package t1cli is made importable
from where this file lies: nothing else of the environment that t1 is installed in, whose packages are for its Python.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import sys
from pathlib import Path


def main() -> None:
    """Serve until the other end is gone."""
    _provide(Path(__file__).resolve().parents[3])
    worker = importlib.import_module("t1cli.terminal.sandbox.harbor.worker")
    asyncio.run(worker.work(int(sys.argv[1]), int(sys.argv[2])))


def _provide(package: Path) -> None:
    spec = importlib.util.spec_from_file_location(
        package.name, package / "__init__.py", submodule_search_locations=[str(package)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[package.name] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    main()
