"""Flips under slime: counted in the replaying pass alone, over the sampler's rows alone, however ranks share them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from t1cli.plugin import hooks
from t1cli.plugin.parallel.order import Layout, Rank
from t1cli.plugin.routing import flips
from t1cli.plugin.routing.live_choice import Count
from t1cli.plugin.routing.rows import local_rows
from t1cli.terminal.trajectory.mismatch import RoutingSums, routing_sums
from t1cli.terminal.trajectory.routing import RoutingShape

SHAPE = RoutingShape(layers=3, top_k=2, experts=8)
COUNTS = {"rollout_batch_size": 4, "n_samples_per_prompt": 1, "global_batch_size": 4, "data_pad_size_multiplier": 4}


def choices(length: int, seed: int) -> Tensor:
    """(length, L, K): what somebody chose, and after the last token nothing that counts."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(length, SHAPE.layers, SHAPE.experts, generator=generator).topk(SHAPE.top_k, -1).indices


def part_of(sampled: list[Tensor], free: list[Tensor], layout: Layout, rank: Rank) -> flips.Totals:
    """One micro-batch of all sequences as one rank's routers see it."""
    lengths = [len(one) for one in sampled]
    ours, theirs = (local_rows([one[:-1] for one in side], lengths, SHAPE, layout, rank) for side in (free, sampled))
    count = Count()
    for layer in range(SHAPE.layers):
        count.add(0, ours[:, layer], theirs[:, layer])
    data = {
        "micro_batch_indices": [list(range(len(lengths)))],
        "loss_masks": [torch.ones(length - 1) for length in lengths],
        "total_lengths": lengths,
    }
    return flips.local_totals(count, data, layout, rank)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(2, 30), min_size=1, max_size=4),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2]),
    st.integers(0, 2**31),
)
def test_all_ranks_together_count_every_row_once(lengths: list[int], cp: int, tp: int, seed: int) -> None:
    sampled = [choices(length, seed + i) for i, length in enumerate(lengths)]
    free = [choices(length, seed + 77 + i) for i, length in enumerate(lengths)]
    layout = Layout(cp, tp, sequence_parallel=True, pad_multiple=4)
    parts = [part_of(sampled, free, layout, Rank(c, t)) for c in range(cp) for t in range(tp)]
    whole = [torch.cat([one[:-1] for one in side]).numpy() for side in (free, sampled)]
    assert sum((part.flips for part in parts), RoutingSums()) == routing_sums(*whole)
    assert all(part.routed == part.trained == sum(lengths) - len(lengths) for part in parts)


def test_rows_of_padding_and_of_last_tokens_are_no_flips() -> None:
    sampled = [choices(9, 1), choices(4, 2)]
    found = part_of(sampled, sampled, Layout(pad_multiple=128), Rank())
    assert found.flips == RoutingSums(11, 0, 33, 0, 0, 66)


def test_rows_beside_other_tokens_are_not_told(caplog: pytest.LogCaptureFixture) -> None:
    count = Count()
    count.add(0, choices(7, 1)[:, 0], choices(7, 2)[:, 0])
    data = {"micro_batch_indices": [[0]], "loss_masks": [torch.ones(3)], "total_lengths": [9]}
    assert flips.local_totals(count, data, Layout(pad_multiple=1), Rank()) == flips.Totals()
    assert "routing of 7 tokens was replayed for 9" in caplog.text


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A pass of two micro-batches through two routers whose live scores choose experts 0 and 1; the record has 1, 2."""
    from slime.utils import routing_replay as module

    monkeypatch.setenv("ENABLE_ROUTING_REPLAY", "1")
    monkeypatch.setenv("ROUTING_REPLAY_STAGE", "replay_forward")
    scores = torch.arange(8.0, 0.0, -1.0).expand(4, 8)

    def one_pass() -> None:
        routers = [module.RoutingReplay([torch.tensor([[1, 2]]).expand(4, 2)] * 2) for _ in range(2)]
        for _ in range(2):
            for router in routers:
                module.ROUTING_REPLAY = router
                # Megatron asks anew at every selection.
                compute_topk = module.get_routing_replay_compute_topk(lambda s, k, **_: torch.topk(s, k, dim=1))
                gates, experts = compute_topk(scores, 2)
                assert experts.tolist() == [[1, 2]] * 4 and gates.tolist() == [[7.0, 6.0]] * 4

    return one_pass


@pytest.fixture
def data() -> dict[str, Any]:
    """Two micro-batches of one sequence of four tokens each."""
    masks = [torch.tensor([1, 1, 0]), torch.tensor([0, 1, 1])]
    return {"micro_batch_indices": [[0], [1]], "loss_masks": masks, "total_lengths": [4, 4]}


def test_the_pass_of_the_actor_is_counted_and_no_other(replay, data, namespace) -> None:
    from slime.utils import logging_utils

    args = namespace(**COUNTS)
    hooks.count_flips(args, None, "")
    replay()
    hooks.measure_mismatch(args, 3, data)
    (row,) = logging_utils.rows
    assert row == {
        "train/routing_flipped_rows": 1.0,
        "train/routing_flipped_sets": 1.0,
        "train/routing_flipped_experts": 0.5,
        "train/routed_token_share": 1.0,
        "train/step": 3,
    }
    replay()  # training passes replay too
    hooks.measure_mismatch(args, 4, data)
    hooks.count_flips(args, None, "ref_")
    replay()
    hooks.measure_mismatch(args, 5, data)
    hooks.count_flips(Namespace(allgather_cp=True), None, "")
    replay()
    hooks.measure_mismatch(args, 6, data)
    assert len(logging_utils.rows) == 1


def test_tokens_whose_rows_were_not_replayed_are_told(data) -> None:
    count = Count()
    count.add(0, choices(4, 1)[:, 0], choices(4, 2)[:, 0])
    totals = flips.local_totals(count, data, Layout(pad_multiple=1), Rank())
    assert (totals.routed, totals.trained) == (2, 4)
    assert totals.to_metrics(whole=True)["train/routed_token_share"] == 0.5
    assert "train/routing_flipped_rows" not in totals.to_metrics(whole=False), "a stage has its own layers alone"
    assert flips.Totals().to_metrics(whole=True) == {}


def test_code_of_another_shape_is_left_alone(monkeypatch, data, namespace, caplog) -> None:
    from slime.utils import logging_utils
    from slime.utils import routing_replay as module

    def get_routing_replay_compute_topk(old_compute_topk, layer):
        return old_compute_topk

    monkeypatch.setattr(module, "get_routing_replay_compute_topk", get_routing_replay_compute_topk)
    for rollout in range(2):
        hooks.count_flips(namespace(**COUNTS), None, "")
        hooks.measure_mismatch(namespace(**COUNTS), rollout, data)
    assert module.get_routing_replay_compute_topk is get_routing_replay_compute_topk
    assert logging_utils.rows == [] and caplog.text.count("are not measured") == 1
