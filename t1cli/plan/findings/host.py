"""M8, M9: the host's out-of-memory killer, and an allocator setting that offload cannot live with."""

from __future__ import annotations

from collections.abc import Iterator

from t1cli.plan.draft import Draft
from t1cli.plan.plan import Finding

TIGHT_SHARE = 0.9
ALLOCATOR_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def host_memory(draft: Draft) -> Iterator[Finding]:
    """M8: more host memory than a node has; nothing in CUDA's logs would say so."""
    host = draft.host
    if host.needed_gib <= TIGHT_SHARE * host.ram_gib:
        return
    over = host.needed_gib > host.ram_gib
    terms = " + ".join(
        f"{name.replace('_', ' ')} {gib:,.1f}" for name, gib in sorted(host.terms.items(), key=lambda t: -t[1]) if gib
    )
    yield draft.finding(
        "M8",
        "error" if over else "warning",
        key="trainer.optimizer_cpu_offload" if draft.spec.trainer.optimizer_cpu_offload else "hardware.host_ram_gib",
        message=f"a node needs {host.needed_gib:,.1f} GiB of host memory and has {host.ram_gib:,.0f}: {terms}. The "
        f"kernel kills the trainer at the hand-off from rollout to training; only dmesg says why",
        fix="--set trainer.optimizer_cpu_offload=false, more training nodes, or sandboxes on other hosts"
        if draft.on_slime
        else "--set sandbox.capacity=8, or a smaller rollout.batch_size",
    )


def expandable_segments(draft: Draft) -> Iterator[Finding]:
    """M9: torch_memory_saver refuses expandable segments, and PPO's offload needs torch_memory_saver."""
    spec = draft.spec
    if spec.engine.kind != "slime":
        return
    why = "PPO forces offload_train" if spec.algorithm.kind == "ppo" else "trainer.offload_train is on"
    if not (spec.trainer.offload_train or spec.algorithm.kind == "ppo"):
        return
    if spec.trainer.expandable_segments:
        yield _conflict(draft, "trainer.expandable_segments", why, "--set trainer.expandable_segments=false")
    for name in ALLOCATOR_VARIABLES:
        if "expandable_segments:true" in spec.engine.env.get(name, "").lower():
            yield _conflict(draft, f"engine.env.{name}", why, f"take expandable_segments out of engine.env.{name}")


def _conflict(draft: Draft, key: str, why: str, fix: str) -> Finding:
    return draft.finding(
        "M9",
        "error",
        key=key,
        message=f"expandable_segments is on while {why}: the memory saver that does the offload raises when it sees "
        f"that setting, so every trainer dies at start",
        fix=fix,
    )


RULES = (host_memory, expandable_segments)
