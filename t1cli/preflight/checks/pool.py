"""sandboxes: pool servers as they run, against the demand of this campaign."""

from __future__ import annotations

import hashlib
import random
import socket
from collections import Counter
from urllib.parse import urlsplit

from t1cli.errors import BadInput
from t1cli.preflight.check import Check, Context, Saw, failed, passed, skipped, warned
from t1cli.preflight.cluster_fleet import cluster_said
from t1cli.preflight.fleet import NoNodes
from t1cli.preflight.pool_status import ServerStatus, pool_servers
from t1cli.preflight.task_pool import tasks_of
from t1cli.spec.sandbox import PoolSandbox

TIRED_HOURS = 18.0
"""The postmortem's container daemon degraded after about 22 hours."""
TIRED_OPERATIONS = 40_000
"""And after about 50,000 compose operations."""
DRAWS = 200


def servers(context: Context) -> Saw:
    """What every pool server has free now, closing leases counted as held, against what one rollout wants at once."""
    sandbox = context.spec.sandbox
    if not isinstance(sandbox, PoolSandbox):
        return skipped(f"sandbox.kind is {sandbox.kind}")
    found = pool_servers(context)
    wanted = f"{context.plan.pool.demand} leases at once, as sandbox.max_tasks and max_runs_per_task say"
    away = [server for server in found if server.problem]
    if away:
        told = "; ".join(f"{server.url}: {server.problem}" for server in away)
        return failed(told, wanted, "start them (`t1 pool serve`), or correct sandbox.urls")
    wrong = _unlike_the_spec(sandbox, found)
    if wrong:
        return failed(wrong, wanted, "make the spec and the servers' limits equal: the plan rests on them")
    free = sum(server.free for server in found)
    held = ", ".join(
        f"{server.url}: {server.active} active, {server.closing} closing of {server.slots}" for server in found
    )
    if free >= context.plan.pool.demand:
        return passed(f"{free} free ({held})", wanted)
    queueing = sandbox.queueing or all(server.ours for server in found)
    judge = warned if queueing else failed
    fix = "wait until they are given back, sweep dead owners (`t1 pool sweep`), or add servers"
    return judge(f"{free} free ({held})", wanted, fix)


def _unlike_the_spec(sandbox: PoolSandbox, found: tuple[ServerStatus, ...]) -> str:
    told = [
        f"{server.url} holds {server.max_tasks} tasks x {server.max_runs_per_task} runs ({server.slots} leases), "
        f"the spec says {sandbox.max_tasks} x {sandbox.max_runs_per_task}"
        for server in found
        if server.max_tasks < sandbox.max_tasks
        or server.max_runs_per_task < sandbox.max_runs_per_task
        or server.slots < sandbox.max_tasks * sandbox.max_runs_per_task
    ]
    return "; ".join(told)


def balance(context: Context) -> Saw:
    """Routing by the hash of a task's name may fill one server while others idle; drawn with this pool's own names."""
    sandbox = context.spec.sandbox
    if not isinstance(sandbox, PoolSandbox) or sandbox.routing != "hash" or len(sandbox.urls) < 2:
        return skipped("no hash routing over several servers")
    groups = context.spec.rollout.groups_launched
    names = _task_keys(context)
    overflowing, worst = draw_bins(
        names, groups=groups, servers=len(sandbox.urls), slots=sandbox.max_tasks, seed=context.spec.seed
    )
    found = f"a server overflows in {overflowing:.0%} of {DRAWS} draws; server {worst[0]} once got {worst[1]} tasks"
    wanted = f"at most {sandbox.max_tasks} of {groups} tasks on each of {len(sandbox.urls)} servers"
    if worst[1] <= sandbox.max_tasks:
        return passed(found, wanted)
    return failed(found, wanted, "--set sandbox.routing=free_slots, or servers with more task places")


def draw_bins(names: list[str], *, groups: int, servers: int, slots: int, seed: int) -> tuple[float, tuple[int, int]]:
    """Share of drawn rollouts in which some server gets more tasks than it holds, and the fullest (server, tasks).

    A router takes `sha1(key) mod servers` (OpenClaw-RL, terminal-rl/router_server.py).
    """
    rng = random.Random(seed)
    overflowing, worst = 0, (0, 0)
    for _ in range(DRAWS):
        drawn = rng.sample(names, groups) if groups <= len(names) else rng.choices(names, k=groups)
        bins = Counter(int(hashlib.sha1(name.encode()).hexdigest(), 16) % servers for name in dict.fromkeys(drawn))
        fullest = max(bins.items(), key=lambda one: one[1])
        overflowing += fullest[1] > slots
        worst = max(worst, fullest, key=lambda one: one[1])
    return overflowing / DRAWS, worst


def _task_keys(context: Context) -> list[str]:
    """Keys as clients send them, or numbered ones where the pool of tasks cannot be read from here."""
    try:
        return [f"{task.name}:{task.path}" for task in tasks_of(context)]
    except BadInput:
        return [f"task-{number}:task-{number}" for number in range(context.spec.tasks.card.num_tasks)]


def daemon(context: Context) -> Saw:
    """Age and operations of the servers behind the pool: container daemons slow down long before they fail."""
    sandbox = context.spec.sandbox
    if not isinstance(sandbox, PoolSandbox):
        return skipped(f"sandbox.kind is {sandbox.kind}")
    found = [server for server in pool_servers(context) if server.up_seconds is not None]
    if not found:
        return skipped(
            "the servers do not say how long they have run: restart their container daemon before a long run"
        )
    told = [f"{server.url} up {server.up_seconds / 3600:.1f} h{_made(server)}" for server in found if server.up_seconds]
    wanted = f"below {TIRED_HOURS:g} h and {TIRED_OPERATIONS:,} sandboxes since a restart"
    tired = [s for s in found if (s.up_seconds or 0) > TIRED_HOURS * 3600 or (s.created or 0) > TIRED_OPERATIONS]
    if not tired:
        return passed("; ".join(told) or "just started", wanted)
    names = ", ".join(server.url for server in tired)
    return warned("; ".join(told), wanted, f"restart the pool server and its container daemon at {names}")


def _made(server: ServerStatus) -> str:
    return f", {server.created:,.0f} sandboxes made" if server.created is not None else ""


def shared_daemon(context: Context) -> Saw:
    """A pool on a training host shares its memory, its disk and its container daemon with the trainers."""
    sandbox = context.spec.sandbox
    if not isinstance(sandbox, PoolSandbox):
        return skipped(f"sandbox.kind is {sandbox.kind}")
    nodes = _training_addresses(context)
    there = [url for url in sandbox.urls if _addresses(url) & nodes]
    wanted = "pool servers on hosts of their own, or with a container daemon of their own"
    fix = "move them, or give the pool its own daemon (`dockerd --data-root DIR --host unix://SOCKET`)"
    if there:
        return warned(f"{', '.join(there)} on a training host", wanted, fix)
    if sandbox.on_training_host:
        return warned("sandbox.on_training_host is true", wanted, fix)
    return passed("none on a training host that is known here", wanted)


def _training_addresses(context: Context) -> set[str]:
    """Addresses of the cluster's nodes; loopback always counts, because the trainers' own processes would reach it."""
    try:
        nodes = {node.address for node in cluster_said(context).nodes} if context.fleet.is_cluster else set()
    except NoNodes:
        nodes = set()
    return nodes | {"127.0.0.1", "::1"}


def _addresses(url: str) -> set[str]:
    host = urlsplit(url).hostname or ""
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return {host}


def open_pool(context: Context) -> Saw:
    """Whoever reaches a pool server without a token runs commands on its host."""
    sandbox = context.spec.sandbox
    if not isinstance(sandbox, PoolSandbox):
        return skipped(f"sandbox.kind is {sandbox.kind}")
    reached = [server for server in pool_servers(context) if not server.problem]
    bare = [server.url for server in reached if server.open_to_all and not _is_loopback(server.url)]
    wanted = "a token, or loopback"
    if bare:
        return warned(
            f"{', '.join(bare)} take anybody's commands",
            wanted,
            "`t1 pool serve --token-file FILE`, and T1_POOL_TOKEN here",
        )
    return passed(f"{len(reached)} servers ask who is there, or listen on loopback", wanted)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url.split(" → ")[0]).hostname or ""
    return host == "localhost" or host.startswith("127.") or host == "::1"


CHECKS = (
    Check("sandboxes.servers", ("S1", "S2"), servers, limit_seconds=40.0),
    Check("sandboxes.balance", ("S1",), balance),
    Check("sandboxes.daemon", ("S4",), daemon, limit_seconds=40.0),
    Check("sandboxes.shared_daemon", ("S11",), shared_daemon),
)
