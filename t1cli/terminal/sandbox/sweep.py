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
from t1cli.terminal.sandbox.local_process import end_marked, marked, remove_tree
from t1cli.terminal.sandbox.process_identity import kill
from t1cli.terminal.sandbox.swept import Swept


def sweep_directory(directory: Path, owner: str | None = None) -> tuple[str, ...]:
    """Destroy the sandboxes on record in `directory` whose owner is dead; returns the names of what is gone."""
    return sweep_record(directory, owner).names_told()


def sweep_record(directory: Path, owner: str | None = None) -> Swept:
    """As `sweep_directory`, with what could not be ended; that stays on record.

    `owner` limits it to one full owner or one run id. Sandboxes of a live owner are never touched.
    """
    if not (directory / "leases.jsonl").exists():
        return Swept()
    if is_harbor_directory(directory):
        return _of_harbor(directory, owner)
    book = LeaseBook(directory)
    left = [lease for lease in book.leases() if not lease.closed and not lease.owner_alive]
    gone: list[str] = []
    failed: dict[str, str] = {}
    for lease in left:
        if owner is not None and not owner_matches(lease.owner, owner):
            continue
        living = _destroy(lease, directory)
        if living:
            failed[lease.name] = f"process {', '.join(map(str, living))} does not end"
        else:
            book.closed(lease.name, swept=True)
            gone.append(lease.name)
    return Swept(tuple(gone), failed)


def _of_harbor(directory: Path, owner: str | None) -> Swept:
    # In a thread of its own, because the caller may stand inside an event loop.
    with ThreadPoolExecutor(max_workers=1) as apart:
        return apart.submit(asyncio.run, sweep_leases(directory, owner)).result()


def _destroy(lease: Lease, directory: Path) -> list[int]:
    """End everything of a sandbox; returns the processes that are still there, and then leaves its directory too."""
    for process in lease.processes:
        kill(process)
    living = [process.pid for process in lease.processes if process.alive]
    if lease.marker:
        end_marked(lease.marker)
        living += [process.pid for process in marked(lease.marker)]
        root = directory / lease.name
        if not living and root.parent == directory and not root.is_symlink():
            remove_tree(root)
    return sorted(set(living))
