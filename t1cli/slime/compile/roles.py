"""The role file: where each role saves and loads, and the critic's learning rate."""

from __future__ import annotations

from typing import Any

from t1cli.slime.compile.places import Places
from t1cli.slime.start_point import role_overrides
from t1cli.spec.experiment import ExperimentSpec


def role_file(spec: ExperimentSpec, places: Places) -> dict[str, Any] | None:
    """Content of `--megatron-config-path`; None without a critic.

    Fresh: the critic names no directory of its own to load (it is still empty), but a warm critic if there is one.
    Resumed: it must, or it would read the actor's checkpoint (slime v0.3.0, `checkpoint.py`; see `start_point`).
    """
    algorithm = spec.algorithm
    if algorithm.kind != "ppo" or places.critic_dir is None:
        return None
    begins = role_overrides(places.start, critic_dir=places.critic_dir)
    warm = spec.model.checkpoints.warm_critic
    warm_load = {"load": warm} if warm and places.start.kind == "fresh" else {}
    actor = {"save": places.actor_dir, "lr": algorithm.actor_learning_rate, **begins["actor"]}
    critic = {"save": places.critic_dir, "lr": algorithm.critic.learning_rate, **warm_load, **begins["critic"]}
    return {
        "megatron": [
            {"name": "actor", "role": "actor", "overrides": actor},
            {"name": "critic", "role": "critic", "overrides": critic},
        ]
    }
