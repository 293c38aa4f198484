"""M1, M2: GPU memory, role by role, with the binding term and the smallest change that would fit."""

from __future__ import annotations

from collections.abc import Iterator

from memory_model.units import GIB
from t1cli.plan.binding import binding_term
from t1cli.plan.draft import Draft
from t1cli.plan.plan import Finding, StageMemory
from t1cli.plan.what_if import smallest_changes

RESIDUAL = "other role's process"
RESERVE = "allocator reserve"
# Smaller terms are summed up as the rest.
SHOWN_GIB = 2.0


def gpu_memory(draft: Draft) -> Iterator[Finding]:
    """M1, or M2 where the logits bind: a role whose peak, or the upper end of its band, is above what a GPU offers."""
    bad = {role: verdict for role, verdict in draft.memory.verdict_by_role.items() if verdict != "FITS"}
    if not bad:
        return
    fix = _fix(draft)
    for role, verdict in bad.items():
        stage = max(draft.memory.plan.roles[role].stages, key=lambda stage: stage.peak_gib)
        term, gib = binding_term(stage.terms)
        yield draft.finding(
            "M2" if term == "logits" else "M1",
            "error" if verdict == "OOM" else "warning",
            key="topology.cp" if term == "logits" else "topology",
            message=f"{verdict}: {role}, stage {stage.stage}, {stage.phase}: {_sum(draft, stage)}; binding "
            f"term: {term}, {gib:.1f} GiB" + (_logits(draft, gib) if term == "logits" else ""),
            fix=fix,
        )


def _fix(draft: Draft) -> str:
    better = smallest_changes(draft.spec, now=draft.memory.verdict, coefficients=draft.memory.coefficients)
    if not better:
        return "no single change fits; `--search` lists the layouts that do"
    return "; or ".join(f"{found.command_line} (peak {found.peak_gib:.1f} GiB, {found.verdict})" for found in better)


def _sum(draft: Draft, stage: StageMemory) -> str:
    usable = draft.memory.plan.usable_gib
    terms = sorted(stage.terms.items(), key=lambda item: -item[1])
    shown = [f"{name} {gib:.1f}" for name, gib in terms if gib >= SHOWN_GIB]
    rest = sum(gib for name, gib in terms if gib < SHOWN_GIB and name != RESIDUAL)
    if residual := stage.terms.get(RESIDUAL):
        shown = [text for text in shown if not text.startswith(RESIDUAL)]
        shown.append(f"the other, offloaded role's process {residual:.1f}")
    text = " + ".join([*shown, *([f"rest {rest:.1f}"] if rest else [])])
    return f"{text} = {stage.peak_gib:.1f} GiB {_against(stage, usable)}"


def _against(stage: StageMemory, usable: float) -> str:
    """The peak beside what a GPU offers; the allocator gives its reserve back before it fails."""
    reserve = stage.terms.get(RESERVE, 0.0)
    if stage.peak_gib <= usable:
        return f"≤ {usable:g} < {stage.high_gib:.1f}, the upper end of the band"
    if stage.peak_gib - reserve <= usable:
        return f"> {usable:g}, of which the allocator can give back {reserve:.1f}"
    return f"> {usable:g}"


def _logits(draft: Draft, gib: float) -> str:
    """The buffer as bytes per logit × tokens of the CP shard × vocabulary of the TP shard."""
    spec, tokens = draft.spec, draft.memory.plan.tokens_per_micro_batch
    vocab = spec.model.architecture.vocab_size
    per_logit = gib * GIB / (tokens * vocab / spec.topology.tp)
    return f" ({per_logit:.0f} B × {tokens:,} tokens at CP {spec.topology.cp} × {vocab:,}/TP {spec.topology.tp})"


RULES = (gpu_memory,)
