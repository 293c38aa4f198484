"""sandboxes: capacity against demand, and one sandbox created, used and destroyed."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from t1cli.preflight.check import NOT_A_NODE, Check, Context, Saw, failed, passed, skipped, warned


def capacity(context: Context) -> Saw:
    """Leases that all servers can hold against the trials that one rollout wants at once."""
    pool, sandbox = context.plan.pool, context.spec.sandbox
    found, wanted = f"capacity {pool.capacity}", f"{pool.demand} trials at once"
    if sandbox.kind == "pool":
        found += f" ({len(sandbox.urls)} x {sandbox.max_tasks} tasks x {sandbox.max_runs_per_task} runs)"
    if pool.capacity >= pool.demand:
        return passed(found, wanted)
    if sandbox.kind == "local" or (sandbox.kind == "pool" and sandbox.queueing):
        return warned(found, wanted, "trials queue for a sandbox: raise sandbox.capacity for shorter rollouts")
    return failed(found, wanted, "raise the pool's capacity or lower rollout.batch_size; `t1 plan` lists the remedies")


def runs_per_task(context: Context) -> Saw:
    """A pool's per-task limit against the samples of one prompt."""
    sandbox = context.spec.sandbox
    if sandbox.kind != "pool":
        return skipped(f"sandbox.kind is {sandbox.kind}")
    samples = context.spec.rollout.samples_per_prompt
    found, wanted = f"{sandbox.max_runs_per_task} runs per task", f"{samples} samples per prompt"
    if sandbox.max_runs_per_task >= samples:
        return passed(found, wanted)
    return failed(found, wanted, "raise sandbox.max_runs_per_task (and the server's limit) to the samples per prompt")


def probe(context: Context) -> Saw:
    """Create a sandbox, write and read a file, leave a background job, destroy it, and look for what is left."""
    if context.spec.sandbox.kind != "local":
        return skipped(f"sandbox.kind is {context.spec.sandbox.kind}: probed where the campaign runs")
    if not context.runs_here:
        return skipped(NOT_A_NODE)
    with tempfile.TemporaryDirectory(prefix="t1-probe-") as directory:
        return asyncio.run(_probe(context, Path(directory)))


async def _probe(context: Context, directory: Path) -> Saw:
    from t1cli.spec.sandbox import LocalSandbox
    from t1cli.terminal.sandbox.local import LocalProvider

    spec = context.spec.sandbox
    assert isinstance(spec, LocalSandbox)
    provider = LocalProvider(spec, directory)
    try:
        sandbox = await provider.create("probe", owner=f"preflight-{os.getpid()}")
        wrote = await sandbox.exec("echo ready > state; sleep 300 >/dev/null 2>&1 &", timeout_seconds=10)
        kept = await sandbox.exec("cat state", timeout_seconds=10)
        ended = await sandbox.end_processes()
        await sandbox.close()
    finally:
        await provider.close()
    left = [path.name for path in directory.rglob("*") if path.is_dir() and path.name == "probe"]
    return _judge(wrote.exit_code == 0 and "ready" in kept.output, ended, left)


def _judge(works: bool, ended: int, left: list[str]) -> Saw:
    wanted = "files and background jobs survive between commands; nothing is left after closing"
    if not works:
        return failed("a file written by one command was not seen by the next", wanted, "see the bubblewrap check")
    if ended < 1:
        return failed("a background job did not survive its command", wanted, "see the bubblewrap check")
    if left:
        return failed("left behind: " + ", ".join(left), wanted, "remove these directories")
    return passed("created, used, ended a background job, destroyed, nothing left", wanted)


CHECKS = (
    Check("sandboxes.capacity", ("S1",), capacity),
    Check("sandboxes.runs_per_task", ("S1",), runs_per_task),
    Check("sandboxes.probe", ("S3",), probe),
)
