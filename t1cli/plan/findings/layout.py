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
            fix="`t1 plan … --search` lists every layout that exists on these GPUs",
        )


def wasteful_layout(draft: Draft) -> Iterator[Finding]:
    """M3 and M4: expert parallelism below its largest legal size, and tensor parallelism that only copies."""
    for waste in draft.memory.waste:
        yield draft.finding(
            waste.id,
            "warning" if waste.id == "M3" or waste.gib >= WASTE_GIB or not waste.gib else "notice",
            key="topology.ep" if waste.id == "M3" else "topology.tp",
            message=waste.message,
            fix=waste.fix,
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
            f"{cp}; the plan counts the second, which needs the native context-parallel layer in the trainer",
            fix="nothing to do; without that layer plan with --set trainer.gdn_context_parallel=none",
        )
    elif cp > 1:
        yield draft.finding(
            "M6",
            "warning",
            key="trainer.gdn_context_parallel",
            message=f"CP {cp} does not cut GatedDeltaNet: every rank gathers the whole sequence and needs "
            f"{whole:.1f} GiB for it, native context parallelism {cut:.1f} GiB",
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


# Below this a TP copy is told, not warned about.
WASTE_GIB = 8.0

RULES = (placement, impossible_layout, wasteful_layout, deltanet_under_context_parallelism, useless_cap)
