"""A campaign without a GPU: the tiny model on this machine, sized by the tasks that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from t1cli.first_spec.answers import NO_GPU_MODEL, Answers
from t1cli.first_spec.blocks import Draft, reward_block, reward_notes, sandbox_block, tasks_block
from t1cli.first_spec.machine import hardware_here
from t1cli.first_spec.own_tasks import OwnTasks

# The quickstart's budgets: what the tiny model can use.
_REPLY_TOKENS, _OBSERVATION_TOKENS, _TURNS = 48, 128, 10
_LEAST_CONTEXT, _LARGEST_BATCH = 512, 60
_ROLLOUTS: Final = 8


def embedded_draft(answers: Answers, tasks: OwnTasks, output: Path) -> Draft:
    """The quickstart's settings on other tasks; every task is tried once or more in each rollout."""
    batch = min(_LARGEST_BATCH, tasks.count * max(1, -(-8 // tasks.count)))
    blocks: dict[str, Any] = {
        "hardware": hardware_here(output.resolve().parent),
        "model": {"checkpoints": {"warm_critic": "shipped"}},
        "tasks": tasks_block(answers, tasks, output),
        **reward_block(tasks),
        "algorithm": {"actor_learning_rate": 2.0e-4, "critic": {"learning_rate": 5.0e-4}},
        "rollout": _rollout(tasks, batch),
        "engine": {"max_batch": batch},
        "sandbox": sandbox_block(answers, at_once=batch),
        "checkpoint": {"every_rollouts": 4, "what": "full", "retention": {"metric": "terminal/reward_mean"}},
    }
    reward = "ctrf-count-20" if tasks.counts_tests else "binary"
    presets = (f"model/{NO_GPU_MODEL}", "hardware/laptop", "topology/embedded", "algorithm/ppo-t1", f"reward/{reward}")
    about = f"{tasks.count} tasks of one's own, on one machine without a GPU."
    return Draft(answers.name, about, presets, blocks, reward_notes(tasks))


def _rollout(tasks: OwnTasks, batch: int) -> dict[str, Any]:
    # A byte is a token at worst; what is left must hold a few turns.
    context = -(-(tasks.longest_bytes + 3 * (_REPLY_TOKENS + _OBSERVATION_TOKENS)) // 128) * 128
    return {
        "pipeline": "sync",
        "num_rollouts": _ROLLOUTS,
        "batch_size": batch,
        "samples_per_prompt": 1,
        "context_tokens": max(_LEAST_CONTEXT, context),
        "max_new_tokens_per_turn": _REPLY_TOKENS,
        "max_turns": _TURNS,
        "observation_tokens": _OBSERVATION_TOKENS,
        "temperature": 1.0,
        "trial_wall_seconds": 60,
        "command_timeout_seconds": 10,
    }
