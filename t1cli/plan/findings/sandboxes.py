"""S5, S6 and lifetimes: what sandboxes cost on a host, how fast they appear, how long they live."""

from __future__ import annotations

from collections.abc import Iterator

from t1cli.plan.draft import Draft
from t1cli.plan.plan import Finding
from t1cli.plan.pool import pool_shape

# A ramp above this share of a trial's wall is worth knowing.
SLOW_RAMP_SHARE = 0.02


def heavy_tasks_on_a_host(draft: Draft) -> Iterator[Finding]:
    """S5: memory and temporary disk of one pool host, against the training host where they share one."""
    sandbox, hardware = draft.spec.sandbox, draft.spec.hardware
    if sandbox.kind != "pool":
        return
    shape = pool_shape(sandbox)
    # Pool servers on the training host all share it; elsewhere each server is taken to have its own host.
    on_host = shape.leases if sandbox.on_training_host else shape.leases // shape.servers
    leases = min(draft.pool.demand, on_host)
    ram, disk = leases * sandbox.memory_per_sandbox_gib, leases * sandbox.disk_per_sandbox_gib
    cost = (
        f"{leases} sandboxes × {sandbox.memory_per_sandbox_gib:g} GiB = {ram:.0f} GiB RAM and "
        f"× {sandbox.disk_per_sandbox_gib:g} GiB = {disk:.0f} GiB of temporary disk"
    )
    if not sandbox.on_training_host:
        yield draft.finding(
            "S5",
            "notice",
            key="sandbox.memory_per_sandbox_gib",
            message=f"each pool host holds {cost}",
            fix="give every pool host at least that much free; `t1 preflight` measures it",
        )
        return
    too_much = ram > hardware.host_ram_gib or disk > hardware.disk_gib
    yield draft.finding(
        "S5",
        "error" if too_much else "warning",
        key="sandbox.on_training_host",
        message=f"the pool runs on a training node and holds {cost}; the node has {hardware.host_ram_gib:.0f} GiB RAM "
        f"and {hardware.disk_gib:.0f} GiB disk, which trainers, checkpoints and images share",
        fix="pool servers on hosts of their own, then --set sandbox.on_training_host=false",
    )


def creation_ramp(draft: Draft) -> Iterator[Finding]:
    """S6: how long a rollout needs to get its sandboxes, and pacing that is missing altogether."""
    sandbox, wall = draft.spec.sandbox, draft.spec.rollout.trial_wall_seconds
    if sandbox.kind == "local":
        return
    rate, demand = sandbox.creation_per_second, draft.pool.demand
    if rate is None:
        yield draft.finding(
            "S6",
            "notice",
            key="sandbox.creation_per_second",
            message=f"creation is unpaced: {demand} sandboxes are asked for in the same second; providers limit this "
            f"(6 per second in the T1 report) and refuse the rest",
            fix="--set sandbox.creation_per_second=6, or the provider's own figure",
        )
        return
    ramp = demand / rate
    if ramp < SLOW_RAMP_SHARE * wall:
        return
    yield draft.finding(
        "S6",
        "warning" if ramp > wall / 2 else "notice",
        key="sandbox.creation_per_second",
        message=f"{demand} sandboxes at {rate:g} per second need {ramp:.1f} s before the last trial starts, "
        f"{ramp / wall:.0%} of the {wall:g} s trial wall",
        fix="a higher quota and sandbox.creation_per_second, or a smaller rollout.over_sampling_batch_size",
    )


def lifetime_below_trial(draft: Draft) -> Iterator[Finding]:
    """A sandbox or lease that ends before the trial does takes the trial with it."""
    sandbox, wall = draft.spec.sandbox, draft.spec.rollout.trial_wall_seconds
    if sandbox.kind == "local":
        return
    key = "lease_seconds" if sandbox.kind == "pool" else "lifetime_seconds"
    life = sandbox.lease_seconds if sandbox.kind == "pool" else sandbox.lifetime_seconds
    if life >= wall:
        return
    yield draft.finding(
        "T-lifetime",
        "error",
        key=f"sandbox.{key}",
        message=f"a sandbox lives {life:g} s, a trial may take {wall:g} s: long trials lose theirs {wall - life:g} s "
        f"early and look like failures of the infrastructure",
        fix=f"--set sandbox.{key}={wall * 1.1:.0f}",
    )


RULES = (heavy_tasks_on_a_host, creation_ramp, lifetime_below_trial)
