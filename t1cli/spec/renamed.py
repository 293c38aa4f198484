"""Keys that people write by another name: what moved, and what slime calls it."""

from __future__ import annotations

from collections.abc import Mapping

RENAMED: Mapping[str, str] = {}
"""Old dotted key to new dotted key, kept for one release after a rename. The old key is an error that names the new."""

FOREIGN: Mapping[str, str] = {
    "n_samples_per_prompt": "rollout.samples_per_prompt",
    "rollout_batch_size": "rollout.batch_size",
    "num_rollout": "rollout.num_rollouts",
    "rollout_max_context_len": "rollout.context_tokens",
    "rollout_max_response_len": "rollout.max_new_tokens_per_turn",
    "rollout_temperature": "rollout.temperature",
    "use_rollout_routing_replay": "rollout.routing_replay",
    "global_batch_size": "algorithm.steps_per_rollout",
    "num_steps_per_rollout": "algorithm.steps_per_rollout",
    "lr": "algorithm.actor_learning_rate",
    "learning_rate": "algorithm.actor_learning_rate",
    "critic_lr": "algorithm.critic.learning_rate",
    "num_critic_only_steps": "algorithm.critic.critic_only_steps",
    "value_clip": "algorithm.critic.value_clip",
    "eps_clip": "algorithm.clip",
    "eps_clip_high": "algorithm.clip_high",
    "lambd": "algorithm.lam",
    "lambda": "algorithm.lam",
    "kl_coef": "algorithm.kl_reward_coef",
    "advantage_estimator": "algorithm.kind",
    "adam_beta2": "algorithm.adam.beta2",
    "weight_decay": "algorithm.adam.weight_decay",
    "tensor_model_parallel_size": "topology.tp",
    "pipeline_model_parallel_size": "topology.pp",
    "context_parallel_size": "topology.cp",
    "expert_model_parallel_size": "topology.ep",
    "expert_tensor_parallel_size": "topology.etp",
    "actor_num_nodes": "topology.train_nodes",
    "rollout_num_gpus": "topology.rollout_gpus",
    "rollout_num_gpus_per_engine": "topology.gpus_per_engine",
    "colocate": "topology.colocated",
    "save_interval": "checkpoint.every_rollouts",
    "hf_checkpoint": "model.checkpoints.hf",
    "ref_load": "model.checkpoints.torch_dist",
    "sglang_mem_fraction_static": "engine.mem_fraction_static",
    "extends": "presets",
    "defaults": "presets",
}
"""Last word of a key as slime or other tools call it, to the key that holds it here."""


def successor(key: str) -> str:
    """A sentence that names the key to write instead of an unknown one, or nothing."""
    if key in RENAMED:
        return f"this key is now `{RENAMED[key]}`"
    word = key.rpartition(".")[2].replace("-", "_")
    return f"this is `{FOREIGN[word]}` here" if word in FOREIGN else ""
