"""M3, M4, M5, M6, M7: layouts that cannot exist, that waste, or that are tuned with the wrong knob."""

from __future__ import annotations

from collections.abc import Iterator

from t1cli.plan.draft import Draft
from t1cli.plan.plan import Finding
from t1cli.plan.topology import placement_problems


def placement(draft: Draft) -> Iterator[Finding]:
    """GPUs that the cluster does not have, and engines that do not divide theirs."""
    for problem in placement_problems(draft.spec, draft.topology):
        yield draft.finding(
            "T-gpus",
            "error",
            key="topology",
            message=problem,
            fix="change topology.train_nodes, topology.rollout_gpus or hardware.num_nodes",
        )


def impossible_layout(draft: Draft) -> Iterator[Finding]:
    """M5: parallel axes that do not multiply out, said as arithmetic."""
    for reason in draft.memory.impossible:
        yield draft.finding(
            "M5",
            "error",
            key="topology.ep" if "ep " in reason else "topology",
            message=reason,
            fix=f"`{draft.loaded.again('plan', '--search')}` lists every layout that exists on these GPUs",
        )


def wasteful_layout(draft: Draft) -> Iterator[Finding]:
    """M3 and M4: expert parallelism below its largest legal size, and tensor parallelism that only copies."""
    groups = draft.spec.model.architecture.num_key_value_heads
    for waste in draft.memory.waste:
        low_ep = waste.id == "M3"
        yield draft.finding(
            waste.id,
            "warning" if low_ep or draft.spec.topology.tp > groups else "notice",
            key="topology.ep" if low_ep else "topology.tp",
            message=waste.message,
            fix=f"--set topology.ep={draft.memory.largest_ep}"
            if low_ep
            else f"--set topology.tp={min(groups, draft.spec.topology.tp)}; pp and cp are the axes that cut memory",
        )


def deltanet_under_context_parallelism(draft: Draft) -> Iterator[Finding]:
    """M6: whether GatedDeltaNet's sequence is cut by CP, and what its working set is either way."""
    trainer, cp = draft.spec.trainer, draft.spec.topology.cp
    working = draft.memory.deltanet_gib
    if working is None:
        return
    whole, cut = working
    if trainer.gdn_context_parallel == "native" and cp > 1:
        yield draft.finding(
            "M6",
            "notice",
            key="trainer.gdn_context_parallel",
            message=f"GatedDeltaNet's working set is {whole:.1f} GiB for one whole sample and {cut:.1f} GiB at CP "
            f"{cp}; the plan counts the second, which t1's own layers give (`--spec` of the command)",
            fix="nothing to do; for slime's layers plan with --set trainer.gdn_context_parallel=none",
        )
    elif cp == 1 and whole > LARGE_SHARE * draft.spec.hardware.usable_gib:
        yield draft.finding(
            "M6",
            "warning",
            key="topology.cp",
            message=f"at CP 1 one GatedDeltaNet layer works on the whole sample: {whole:.1f} GiB for "
            f"{draft.spec.rollout.context_tokens:,} tokens, {whole / draft.spec.hardware.usable_gib:.0%} of a GPU",
            fix="--set topology.cp=4 --set trainer.gdn_context_parallel=native",
        )
    elif cp > 1:
        yield draft.finding(
            "M6",
            "warning",
            key="trainer.gdn_context_parallel",
            message=f"CP {cp} does not cut GatedDeltaNet: every rank gathers the whole sequence and needs "
            f"{whole:.1f} GiB for it, native context parallelism {cut:.1f} GiB; and the gathered layer's backward pass "
            f"drops what other ranks' outputs owe to a rank's tokens (slime 0.3.0)",
            fix="--set trainer.gdn_context_parallel=native",
        )


def useless_cap(draft: Draft) -> Iterator[Finding]:
    """M7: a token cap below the longest sample's share lowers nothing and adds micro-batches."""
    if draft.memory.cap_note is None:
        return
    share = -(-draft.spec.rollout.context_tokens // draft.spec.topology.cp)
    yield draft.finding(
        "M7",
        "warning",
        key="trainer.max_tokens_per_gpu",
        message=draft.memory.cap_note,
        fix=f"--set trainer.max_tokens_per_gpu={share} costs no memory and saves micro-batches; to lower the peak "
        f"raise topology.cp or lower rollout.context_tokens",
    )


# A working set above this share of a GPU is worth a warning even where it fits.
LARGE_SHARE = 0.1

RULES = (placement, impossible_layout, wasteful_layout, deltanet_under_context_parallelism, useless_cap)
