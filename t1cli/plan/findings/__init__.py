"""One small file per family of the failure catalogue. IN: a Draft. OUT: findings, worst first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from t1cli.plan.draft import Draft
from t1cli.plan.findings import (
    arguments,
    budgets,
    checkpoints,
    critic,
    embedded,
    engines,
    evaluation,
    fidelity,
    host,
    layout,
    memory,
    paths,
    pipeline,
    pool,
    reward,
    sandboxes,
)
from t1cli.plan.plan import Finding

Rule = Callable[[Draft], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    *layout.RULES,
    *memory.RULES,
    *engines.RULES,
    *embedded.RULES,
    *paths.RULES,
    *host.RULES,
    *fidelity.RULES,
    *reward.RULES,
    *budgets.RULES,
    *pool.RULES,
    *sandboxes.RULES,
    *critic.RULES,
    *checkpoints.RULES,
    *pipeline.RULES,
    *evaluation.RULES,
    *arguments.RULES,
)

# A campaign read from a slime script has no sandboxes, budgets of turns or tests: those blocks are placeholders.
_TERMINAL_ONLY = frozenset(
    {*reward.RULES, *budgets.RULES, *pool.RULES, *sandboxes.RULES, *fidelity.RULES, *evaluation.RULES}
)

_ORDER = {"error": 0, "warning": 1, "notice": 2}


def all_findings(draft: Draft) -> tuple[Finding, ...]:
    """Every rule's findings: errors, then warnings, then notices, each in catalogue order."""
    found = [finding for rule in _rules(draft) for finding in rule(draft)]
    return tuple(sorted(found, key=lambda finding: _ORDER[finding.severity]))


def _rules(draft: Draft) -> tuple[Rule, ...]:
    engine = draft.spec.engine
    if engine.kind == "slime" and engine.from_script:
        return tuple(rule for rule in RULES if rule not in _TERMINAL_ONLY)
    return RULES
