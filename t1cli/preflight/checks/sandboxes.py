"""sandboxes: capacity and lifetimes by the spec, and one sandbox created, used and destroyed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memory_model.units import GIB
from t1cli.plan.host import LOCAL_SANDBOX_GIB
from t1cli.preflight.check import NOT_A_NODE, Check, Context, Saw, failed, passed, skipped, warned
from t1cli.preflight.every_node import EveryNode
from t1cli.preflight.fleet import Probe
from t1cli.preflight.guarded import ProbeBroke, ask_guarded
from t1cli.preflight.pool_status import NO_ANSWER, pool_servers
from t1cli.spec.command_line import command_line
from t1cli.spec.sandbox import HarborSandbox, PoolSandbox

SLOW_RAMP_SHARE = 0.2
"""A ramp above this share of a rollout leaves engines waiting."""
LEASE_WAIT_SECONDS = 20.0
"""A pool that has no lease within this is told as full."""
PROBE_SECONDS = 55.0
HARBOR_SECONDS = 240.0
"""A provider may have to fetch the image first."""
MARGIN_SECONDS = 60.0
"""Creating, grading and closing around the agent's own time."""


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
    fix = f"raise the pool's capacity or lower rollout.batch_size; `{context.again('plan')}` lists the remedies"
    return failed(found, wanted, fix)


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


def creation_rate(context: Context) -> Saw:
    """How long a rollout needs to get its sandboxes at the provider's rate, against how long it lasts."""
    sandbox, rollout = context.spec.sandbox, context.spec.rollout
    rate, demand = sandbox.creation_per_second, context.plan.pool.demand
    if rate is None:
        return skipped("sandbox.creation_per_second is null: creation is not paced")
    lasts = rollout.expected_seconds or rollout.trial_wall_seconds
    ramp = demand / rate
    found = f"{demand} sandboxes at {rate:g}/s take {ramp:.0f} s, {ramp / lasts:.0%} of a rollout's {lasts:g} s"
    wanted = f"at most {SLOW_RAMP_SHARE:.0%}"
    if ramp <= SLOW_RAMP_SHARE * lasts:
        return passed(found, wanted)
    return warned(found, wanted, "ask the provider for a higher rate, or lower rollout.over_sampling_batch_size")


def lifetime(context: Context) -> Saw:
    """A sandbox must outlive the trial in it, grading included."""
    sandbox, wall = context.spec.sandbox, context.spec.rollout.trial_wall_seconds
    if sandbox.kind == "local":
        return skipped("a local sandbox lives as long as its trial")
    key = "lease_seconds" if sandbox.kind == "pool" else "lifetime_seconds"
    life = sandbox.lease_seconds if sandbox.kind == "pool" else sandbox.lifetime_seconds
    found, wanted = f"sandbox.{key} {life:g} s", f"{wall:g} s of trial + {MARGIN_SECONDS:g} s around it"
    if life >= wall + MARGIN_SECONDS:
        return passed(found, wanted)
    judge = failed if life < wall else warned
    return judge(found, wanted, f"--set sandbox.{key}={wall + MARGIN_SECONDS:.0f}")


def host_room(context: Context, room: Any) -> Saw:
    """Memory and temporary disk of sandboxes that share a node with everything else."""
    sandbox, leases = context.spec.sandbox, context.plan.pool.granted or context.trials_at_once
    if isinstance(sandbox, PoolSandbox):
        ram, disk = leases * sandbox.memory_per_sandbox_gib, leases * sandbox.disk_per_sandbox_gib
    else:
        # What a shell and pytest take at least; what a sandbox may take is bounded per process and rarely used.
        ram, disk = leases * LOCAL_SANDBOX_GIB, 0.0
    free_ram, free_disk = room["available"] / GIB, room["scratch"] / GIB
    found = f"{free_ram:.1f} GiB of memory and {free_disk:.1f} GiB of temporary disk free"
    wanted = f"{ram:.1f} and {disk:.1f} GiB for {leases} sandboxes"
    if free_ram >= ram and free_disk >= disk:
        return passed(found, wanted)
    return failed(found, wanted, "put pool servers on hosts of their own, or lower sandbox.capacity")


def _room(context: Context) -> Probe | Saw:
    sandbox = context.spec.sandbox
    if sandbox.kind == "local" or (sandbox.kind == "pool" and sandbox.on_training_host):
        return Probe("t1cli.preflight.probes.room:room")
    return skipped(f"sandboxes run on other hosts; each needs what `{context.again('plan')}` says per pool host")


_PROBE_FIXES = {
    "local": "see software.bubblewrap",
    "pool": "`t1 pool serve` on the pool's host; sandboxes.servers says more",
    "harbor": "see software.harbor; the environment's extra package and its account's key must be there",
}


def probe(context: Context) -> Saw:
    """Create a sandbox, write and read a file, leave a background job, destroy it, and look for what is left."""
    sandbox = context.spec.sandbox
    if sandbox.kind == "local" and not context.runs_here:
        return skipped(NOT_A_NODE)
    # A provider's sandboxes are the same from any machine that has what it takes to ask for one.
    if sandbox.kind == "harbor" and not context.runs_here and (lacking := _lacks_harbor(sandbox)):
        return skipped(f"{lacking} here, and this machine is not one of the campaign's nodes")
    if sandbox.kind == "pool" and (away := _nobody_answers(context)):
        fix = "`t1 pool serve` on the pool's host, or correct sandbox.urls"
        return failed(away, "a sandbox that can be created, used and destroyed", fix)
    request = {"sandbox": sandbox.model_dump(mode="json"), "lease_wait_seconds": LEASE_WAIT_SECONDS}
    seconds = HARBOR_SECONDS if sandbox.kind == "harbor" else PROBE_SECONDS
    fix = _PROBE_FIXES[sandbox.kind]
    try:
        found = ask_guarded("t1cli.preflight.sandbox_probe", request, seconds=seconds)
    except ProbeBroke as broke:
        return failed(str(broke), "a sandbox that can be created, used and destroyed", fix)
    return _judge(bool(found["works"]), int(found["ended"]), list(found["left"]), float(found["create_seconds"]))


def _nobody_answers(context: Context) -> str:
    """Why no lease need be waited for; empty where a server is there.

    Asks before a lease of ours is taken, or sandboxes.servers would count it against the campaign.
    """
    servers = pool_servers(context)
    if all(server.problem.startswith(NO_ANSWER) for server in servers):
        return "; ".join(f"{server.url}: {server.problem}" for server in servers)
    return ""


def _lacks_harbor(sandbox: HarborSandbox) -> str:
    from t1cli.errors import CouldNotAsk
    from t1cli.terminal.sandbox.harbor.interpreter import harbor_python

    try:
        harbor_python(sandbox.python)
    except CouldNotAsk as error:
        return str(error)
    return ""


def _judge(works: bool, ended: int, left: list[str], create_seconds: float) -> Saw:
    wanted = "files and background jobs survive between commands; nothing is left after closing"
    if not works:
        return failed("a file written by one command was not seen by the next", wanted, "see the bubblewrap check")
    if ended < 1:
        return failed("a background job did not survive its command", wanted, "see the bubblewrap check")
    if left:
        return failed("left behind: " + ", ".join(left), wanted, "remove these directories")
    said = f"created in {create_seconds:.2f} s, used, ended a background job, destroyed, nothing left"
    return passed(said, wanted)


def leftovers(context: Context) -> Saw:
    """Sandboxes that dead owners of this machine still have on record below the run directories."""
    from t1cli.terminal.sandbox.leases import LeaseBook

    left: dict[str, int] = {}
    # attempt_N/sandboxes with what lies below (a node's, a pool's, Harbor's), and a pool server's own directory.
    for pattern in ("*/*/sandboxes/**/leases.jsonl", "sandboxes/leases.jsonl"):
        for record in context.runs_dir.glob(pattern):
            dead = [one for one in LeaseBook(record.parent).leases() if not one.closed and not one.owner_alive]
            if dead:
                left[str(record.parent)] = len(dead)
    wanted = "nothing left by dead runs"
    if not left:
        return passed("none on record", wanted)
    first = next(iter(left))
    place = Path(first).parent if Path(first).name == "pool" else Path(first)
    return warned(f"{sum(left.values())} on record, first in {first}", wanted, command_line("pool sweep", str(place)))


CHECKS = (
    Check("sandboxes.capacity", ("S1",), capacity),
    Check("sandboxes.runs_per_task", ("S1",), runs_per_task),
    Check("sandboxes.creation_rate", ("S6",), creation_rate),
    Check("sandboxes.lifetime", ("S3",), lifetime),
    Check("sandboxes.host_room", ("S5",), EveryNode(_room, host_room)),
    Check("sandboxes.probe", ("S3",), probe, limit_seconds=HARBOR_SECONDS + 90.0, needs=("software.bubblewrap",)),
    Check("sandboxes.leftovers", ("S3",), leftovers),
)
