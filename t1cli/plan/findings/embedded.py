"""What a spec asks of the embedded engine that it does not do."""

from __future__ import annotations

from collections.abc import Iterator

from t1cli.plan.draft import Draft
from t1cli.plan.plan import Finding
from t1cli.spec.embedded_engine import HINT, unsupported


def unsupported_settings(draft: Draft) -> Iterator[Finding]:
    """T-embedded: nothing that a spec asks for is ever ignored silently."""
    if draft.spec.engine.kind == "embedded":
        for key, message in unsupported(draft.spec).items():
            yield draft.finding("T-embedded", "error", key=key, message=message, fix=HINT)


RULES = (unsupported_settings,)
