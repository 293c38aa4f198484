"""Removing what dead owners left behind, by the lease record alone.

A bubblewrap sandbox leaves no mount and no directory on the host (its files are a tmpfs of its own mount namespace):
ending process 1 ends all of it. A plain-process sandbox leaves marked processes and a directory. What Harbor's worker
left is ended by a worker again.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from t1cli.terminal.sandbox.harbor.sweep import is_harbor_directory, sweep_leases
from t1cli.terminal.sandbox.leases import Lease, LeaseBook, owner_matches
from t1cli.terminal.sandbox.local_process import end_marked, remove_tree
from t1cli.terminal.sandbox.process_identity import kill


def sweep_directory(directory: Path, owner: str | None = None) -> tuple[str, ...]:
    """Destroy the sandboxes on record in `directory` whose owner is dead; returns their names.

    `owner` limits it to one full owner or one run id. Sandboxes of a live owner are never touched.
    """
    if not (directory / "leases.jsonl").exists():
        return ()
    if is_harbor_directory(directory):
        return _of_harbor(directory, owner)
    book = LeaseBook(directory)
    left = [lease for lease in book.leases() if not lease.closed and not lease.owner_alive]
    wanted = [lease for lease in left if owner is None or owner_matches(lease.owner, owner)]
    for lease in wanted:
        _destroy(lease, directory)
        book.closed(lease.name, swept=True)
    return tuple(lease.name for lease in wanted)


def _of_harbor(directory: Path, owner: str | None) -> tuple[str, ...]:
    # In a thread of its own, because the caller may stand inside an event loop.
    with ThreadPoolExecutor(max_workers=1) as apart:
        return apart.submit(asyncio.run, sweep_leases(directory, owner)).result()


def _destroy(lease: Lease, directory: Path) -> None:
    for process in lease.processes:
        kill(process)
    if lease.marker:
        end_marked(lease.marker)
        root = directory / lease.name
        if root.parent == directory and not root.is_symlink():
            remove_tree(root)
