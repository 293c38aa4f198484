"""Where the actor's first weights lie."""

from __future__ import annotations

from pathlib import Path

from t1cli.errors import BadInput
from t1cli.spec.engine import EmbeddedEngine
from t1cli.spec.experiment import ExperimentSpec

SHIPPED = Path(__file__).parent / "shipped" / "model.safetensors"


def first_weights(spec: ExperimentSpec) -> Path | None:
    """The file that `engine.warm_start` names; None for a random start. Raises BadInput when it is not there."""
    assert isinstance(spec.engine, EmbeddedEngine)
    wanted = spec.engine.warm_start
    if wanted == "random":
        return None
    path = SHIPPED if wanted == "shipped" else Path(wanted)
    if not path.exists():
        raise BadInput(
            f"no first weights at {path}",
            where="engine.warm_start",
            hint="python -m t1cli.embedded.warm_start builds them; engine.warm_start=random needs none",
        )
    return path
