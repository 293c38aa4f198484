"""A tiny spec and training rows made up from a seed, for tests of the trainer and the campaign."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from t1cli.embedded.model import TinyMoEConfig
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import load_experiment
from t1cli.terminal.trajectory.row import TrainingRow

QUICKSTART = Path(__file__).parents[3] / "experiments/quickstart/experiment.yaml"
LAYERS, EXPERTS, CHOSEN, VOCABULARY = 2, 4, 2, 64
TINY = (
    "model.architecture.hidden_size=32",
    f"model.architecture.num_hidden_layers={LAYERS}",
    "model.architecture.num_attention_heads=2",
    "model.architecture.num_key_value_heads=2",
    "model.architecture.head_dim=16",
    f"model.architecture.vocab_size={VOCABULARY}",
    f"model.architecture.num_experts={EXPERTS}",
    f"model.architecture.num_experts_per_tok={CHOSEN}",
    "model.architecture.moe_intermediate_size=16",
    "trainer.max_tokens_per_gpu=128",
    "algorithm.critic.critic_only_steps=0",
    # Rows of random log-probs: a gate on the gap would rightly refuse them.
    "rollout.first_gap_limit=null",
)

# Two threads that wait for each other on a busy machine take a hundred times longer than one.
torch.set_num_threads(1)

MakeSpec = Callable[..., ExperimentSpec]
MakeRows = Callable[..., list[TrainingRow]]


def tiny_config(vocabulary: int, *, expert_size: int = 16) -> TinyMoEConfig:
    """A network of a few thousand weights, of the spec's shape but for the vocabulary."""
    return TinyMoEConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        num_layers=LAYERS,
        num_heads=2,
        num_kv_heads=2,
        head_dim=16,
        num_experts=EXPERTS,
        experts_per_token=CHOSEN,
        expert_size=expert_size,
    )


@pytest.fixture
def tiny_spec() -> MakeSpec:
    """`tiny_spec("a.b=c", …)`: the quickstart with a network of a few thousand weights."""
    return lambda *overrides: load_experiment(QUICKSTART, [*TINY, *overrides]).spec


@pytest.fixture
def synthetic_rows() -> MakeRows:
    """`synthetic_rows(count, seed=…, version=…)`: rows with an observation in the response and valid routing."""
    return make_rows


def make_rows(count: int, *, seed: int, version: int = 0) -> list[TrainingRow]:
    """Rows of 12 to 40 tokens."""
    random = np.random.default_rng(seed)
    return [make_row(random, index, version=version) for index in range(count)]


def make_row(random: np.random.Generator, index: int, *, version: int) -> TrainingRow:
    """One row of a trial of its own."""
    length = int(random.integers(12, 40))
    start = int(random.integers(2, 6))
    mask = np.zeros(length, np.uint8)
    mask[start:] = 1
    mask[start + 3 : start + 5] = 0
    log_probs = np.where(mask == 1, -random.random(length), 0.0).astype(np.float32)
    routes = [random.permutation(EXPERTS)[:CHOSEN] for _ in range((length - 1) * LAYERS)]
    return TrainingRow(
        trial_id=f"trial-{index}",
        group_id=index,
        task=f"task-{index}",
        family="made-up",
        tokens=random.integers(0, VOCABULARY, length).astype(np.int32),
        response_start=start,
        loss_mask=mask,
        log_probs=log_probs,
        routed_experts=np.stack(routes).reshape(length - 1, LAYERS, CHOSEN).astype(np.uint8),
        reward=0.05 * (index % 4),
        outcome="scored",
        weight_versions=(version, version),
    )
