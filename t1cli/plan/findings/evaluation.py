"""C10: what an evaluation of this size can and cannot tell."""

from __future__ import annotations

import math
from collections.abc import Iterator

from t1cli.plan.draft import Draft
from t1cli.plan.plan import Finding

# The report's final score; a binomial interval is widest near here.
TYPICAL_SCORE = 0.6
FEW_REPEATS = 3


def spread(draft: Draft) -> Iterator[Finding]:
    """C10: the interval that chance alone gives, and repeats too few to see it."""
    evaluation = draft.spec.evaluation
    if evaluation is None:
        yield draft.finding(
            "C10",
            "notice",
            key="evaluation",
            message="no evaluation: the reward of training batches is the only sign of progress, and it moves with "
            "the tasks drawn",
            fix="an `evaluation` block with a held-out task set and repeats of 3",
        )
        return
    trials = evaluation.num_tasks * evaluation.repeats
    half_width = 1.96 * math.sqrt(TYPICAL_SCORE * (1 - TYPICAL_SCORE) / trials)
    few = evaluation.repeats < FEW_REPEATS
    yield draft.finding(
        "C10",
        "warning" if few else "notice",
        key="evaluation.repeats",
        message=f"{evaluation.num_tasks} tasks × {evaluation.repeats} = {trials} trials: at a score of {TYPICAL_SCORE} "
        f"chance alone spreads it by ±{half_width:.3f} (95%); 89 × 3 gave 0.596 to 0.635 at one iteration",
        fix=f"--set evaluation.repeats={FEW_REPEATS}" if few else "compare means with intervals, never the best of n",
    )


def unequal_budgets(draft: Draft) -> Iterator[Finding]:
    """C10: a published figure that was obtained with more context or longer replies."""
    evaluation = draft.spec.evaluation
    reference = evaluation.reference if evaluation else None
    if evaluation is None or reference is None:
        return
    unequal = [
        f"{label} {ours:,} against {theirs:,}"
        for label, ours, theirs in (
            ("context", evaluation.context_tokens, reference.context_tokens),
            ("reply", evaluation.max_new_tokens_per_turn, reference.max_new_tokens_per_turn),
        )
        if ours != theirs
    ]
    if unequal:
        yield draft.finding(
            "C10",
            "warning",
            key="evaluation.reference",
            message=f"compared with {reference.name} under unequal budgets: {'; '.join(unequal)} tokens",
            fix="evaluate once under the reference's budgets, or keep the two figures marked as unequal",
        )


RULES = (spread, unequal_budgets)
