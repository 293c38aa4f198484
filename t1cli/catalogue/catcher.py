"""Something in the code that says which rows it catches."""

from __future__ import annotations

from dataclasses import dataclass

from t1cli.catalogue.entry import Stage


@dataclass(frozen=True)
class Catcher:
    """A check, finding, refusal, rule, diagnosis, log signature, or code that makes the row impossible."""

    id: str
    """The row it catches."""
    stage: Stage
    kind: str
    """`check`, `finding`, `refusal`, `argument rule`, `rule`, `diagnosis`, `log signature`, `alert` or `code`."""
    name: str
    """What `--only`, an alert or a reader of the code calls it."""
    where: str
    """File that it is written in, from the root of the checkout."""
    says: tuple[str, ...] = ()
    """What it says; a value that is filled in stands in ‹angle quotes›."""
    fix: str = ""
    """What it advises."""
