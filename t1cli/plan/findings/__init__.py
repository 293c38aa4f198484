"""One small file per family of the failure catalogue. IN: a Draft. OUT: findings, worst first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from t1cli.plan.draft import Draft
from t1cli.plan.findings import (
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
)

_ORDER = {"error": 0, "warning": 1, "notice": 2}


def all_findings(draft: Draft) -> tuple[Finding, ...]:
    """Every rule's findings: errors, then warnings, then notices, each in catalogue order."""
    found = [finding for rule in RULES for finding in rule(draft)]
    return tuple(sorted(found, key=lambda finding: _ORDER[finding.severity]))
