"""What `t1 audit` answers, as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from t1cli.run.rollout_number import rollout_number
from t1cli.terminal.trajectory.audit_engine import mean_gap
from t1cli.terminal.trajectory.audit_rows import REPORT_ALIGNED, REPORT_DRIFT, REPORT_RETOKENIZED
from t1cli.terminal.trajectory.audit_run import Balance, RunAudit
from t1cli.ui.console import answer

_RULES_SHOWN: Final = 10
_TURNS_SHOWN: Final = 5


def print_audit(name: str, audit: RunAudit) -> None:
    """The verdict last, under what it rests on."""
    rows = audit.rows
    lines = [
        f"{name}   {audit.rollouts} rollouts, {rows.trials:,} trials, {rows.rows:,} rows, {rows.turns:,} turns, "
        f"{rows.tokens:,} tokens",
        "",
        *_relations(audit),
        *_positions(audit),
        *_routing_and_gap(audit),
        *_balance(audit.balance),
        *_blame(audit),
        *_engine(audit),
        *(f"✗ {fault}" for fault in audit.faults),
    ]
    if not audit.faults and not rows.rows_without_proof:
        lines.append("✓ every token in the loss is the one that was sampled")
    console = answer()
    for line in lines:
        console.print(line, soft_wrap=True)


def audit_json(audit: RunAudit) -> dict[str, Any]:
    """All figures, and the T1 report's beside them."""
    rows = asdict(audit.rows)
    rows["rules"] = dict(audit.rows.rules)
    return {
        "clean": not audit.faults,
        "faults": audit.faults,
        "rollouts": audit.rollouts,
        "rows": rows,
        "aligned": audit.rows.aligned,
        "drift": audit.rows.drift,
        "reference": {"aligned": REPORT_ALIGNED, "retokenized": REPORT_RETOKENIZED, "drift": REPORT_DRIFT},
        "routing_replay": audit.replay,
        "logprob_gap": audit.mean_gap,
        "ledger": None
        if audit.balance is None
        else {**asdict(audit.balance), "unaccounted": audit.balance.unaccounted},
        "engine": [asdict(gap) for gap in audit.engine],
        "engine_gap": mean_gap(audit.engine) if audit.engine else None,
    }


def _relations(audit: RunAudit) -> list[str]:
    turns = sum(audit.rows.relations.values())
    found = [
        f"  {name:<14}{count:>10,}{_share(count, turns):>12}" for name, count in audit.rows.relations.items() if turns
    ]
    strict = _share(audit.rows.all_strict_trials, audit.rows.trials) if turns else "unknown share"
    told = f"  {audit.rows.ties} ties; strict throughout: {strict} of the trials (no gate)"
    return ["  turns that continued the history before them", *found, told, ""]


def _positions(audit: RunAudit) -> list[str]:
    rows = audit.rows
    other = _share(rows.retokenized_tokens + rows.placeholder_rows, rows.tokens)
    missing = f"; {rows.rows_without_proof:,} rows have no record of their turns" if rows.rows_without_proof else ""
    return [
        f"  {'positions':<34}{'this run':>12}{'T1 report':>12}",
        f"  {'bit for bit as sampled under':<34}{rows.aligned:>12.2%}{REPORT_ALIGNED:>12.2%}",
        f"  {'re-tokenised or placeholder':<34}{other:>12}{REPORT_RETOKENIZED:>12.2%}   the residual that the session "
        "endpoint removes",
        f"  {'drift inside the loss':<34}{rows.drift:>12.4%}{REPORT_DRIFT:>12.4%}   of {rows.loss_tokens:,} loss tokens"
        + missing,
        "",
    ]


def _routing_and_gap(audit: RunAudit) -> list[str]:
    rows = audit.rows
    routed = _share(rows.routed_loss_tokens, rows.loss_tokens)
    use = "replayed" if audit.replay else "not replayed"
    gap = "not logged" if audit.mean_gap is None else f"{audit.mean_gap:.4f} over {len(audit.gap)} steps"
    return [
        f"  routes        {routed} of the loss tokens; {rows.rows_without_routing:,} rows without; {use}",
        f"  log-prob gap  {gap}; 0.0110 to 0.0144 in the T1 report",
        "",
    ]


def _balance(balance: Balance | None) -> list[str]:
    if balance is None:
        return ["  token ledger  not in this run's metrics", ""]
    return [
        f"  token ledger  {balance.sampled:,} sampled",
        *(
            f"    {account:<16}{tokens:>12,}{_share(tokens, balance.sampled):>10}"
            for account, tokens in balance.accounts.items()
        ),
        f"    {'unaccounted':<16}{balance.unaccounted:>12,}",
        "",
    ]


def _blame(audit: RunAudit) -> list[str]:
    if not audit.rows.rules:
        return []
    rules = audit.rows.rules.most_common(_RULES_SHOWN)
    turns = [
        f"    rollout {rollout_number(b.rollout)}, {b.trial_id}, turn {b.turn}: {b.relation}"
        + (f", cell {b.cell[0]} × {b.cell[1]}" if b.cell else "")
        + f", {b.rule}"
        for b in audit.rows.blamed[:_TURNS_SHOWN]
    ]
    return ["  turns by what the harness or its template did", *(f"  {n:>8,}  {rule}" for rule, n in rules), *turns, ""]


def _engine(audit: RunAudit) -> list[str]:
    if not audit.engine:
        return []
    versions = sorted({gap.engine_version for gap in audit.engine})
    lines = [
        f"    rollout {rollout_number(gap.rollout)}, {gap.trial_id}: {gap.mean:.4f} over {gap.tokens:,} tokens, "
        f"sampled by version {', '.join(map(str, gap.weight_versions))}; "
        f"most in turn {gap.worst_turn}, {gap.worst_turn_mean:.4f}"
        for gap in audit.engine
    ]
    told = f"  live engine   gap {mean_gap(audit.engine):.4f} under weight version {', '.join(versions) or 'unknown'}"
    return [told, *lines, ""]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2%}" if whole else "-"
