"""Where the first weights of both roles lie."""

from __future__ import annotations

from pathlib import Path

from t1cli.errors import BadInput
from t1cli.spec.engine import EmbeddedEngine
from t1cli.spec.experiment import ExperimentSpec

SHIPPED = Path(__file__).parent / "shipped" / "model.safetensors"
SHIPPED_CRITIC = SHIPPED.with_name("critic.safetensors")


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


def first_critic_weights(spec: ExperimentSpec) -> Path | None:
    """The file that `model.checkpoints.warm_critic` names; None for a cold critic. BadInput when it is not there.

    The shipped critic belongs to the shipped actor: under any other the critic starts cold.
    """
    assert isinstance(spec.engine, EmbeddedEngine)
    wanted = spec.model.checkpoints.warm_critic
    if wanted is None or (wanted == "shipped" and spec.engine.warm_start != "shipped"):
        return None
    path = SHIPPED_CRITIC if wanted == "shipped" else Path(wanted)
    if not path.exists():
        raise BadInput(
            f"no critic at {path}",
            where="model.checkpoints.warm_critic",
            hint="python -m t1cli.embedded.warm_critic builds one; null starts it cold",
        )
    return path
