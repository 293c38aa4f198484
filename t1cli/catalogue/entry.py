"""One row of the catalogue, in words for people; who catches it is asked of the code."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field

Stage = Literal["plan", "preflight", "launch", "rollout", "train", "pool", "watch", "report"]
STAGES: Final[tuple[Stage, ...]] = get_args(Stage)

FAMILIES: Final[Mapping[str, str]] = {
    "memory": "Memory and topology",
    "fidelity": "Fidelity of training data",
    "reward": "Reward",
    "sandboxes": "Sandboxes and pool",
    "process": "Training process and cluster",
    "learning": "Learning signal",
}


class Entry(BaseModel):
    """A failure mode."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    """Letter of its family and a number, such as `S4`."""
    family: str
    """Heading under which it stands."""
    title: str
    """What goes wrong, in one line."""
    symptom: str
    """What a person sees."""
    first_guess: str
    """What people take it for at first."""
    mechanism: str
    """Why it happens, with figures."""
    stages: tuple[Stage, ...] = Field(min_length=1)
    """Where it has to be caught, earliest chance first."""
    fix: str
    """What to do about it."""
    source: str
    """Where it was seen."""
    example: str = ""
    """Arguments of `t1 plan` under which it can be seen; empty where no plan tells it."""


@cache
def entries() -> Mapping[str, Entry]:
    """Every row by its ID, in the order of the page."""
    found: dict[str, Entry] = {}
    for name, heading in FAMILIES.items():
        text = (Path(__file__).parent / "rows" / f"{name}.yaml").read_text(encoding="utf-8")
        for id_, row in yaml.safe_load(text).items():
            found[id_] = Entry(id=id_, family=heading, **row)
    return found
