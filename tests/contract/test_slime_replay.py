"""slime's own replay code on our rows: its hook replays them, and its cut is our order. SLIME_CHECKOUT=PATH runs it."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from t1cli.plugin.parallel.order import Layout, Rank
from t1cli.plugin.patches.shape import REPLAYED_TOPK, mismatch
from t1cli.plugin.routing import live_choice
from t1cli.plugin.routing.rows import local_rows
from t1cli.terminal.trajectory.routing import RoutingShape

CHECKOUT = os.environ.get("SLIME_CHECKOUT", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHECKOUT, reason="no slime checkout: SLIME_CHECKOUT=PATH"),
]
SHAPE = RoutingShape(layers=2, top_k=2, experts=8)


def load(path: str) -> ModuleType:
    """One file of the checkout as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, Path(CHECKOUT) / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows_of(length: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(length - 1, SHAPE.layers, SHAPE.experts, generator=generator).topk(SHAPE.top_k, -1).indices


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    """slime's module, with its pinned memory and its GPU played by the host."""
    own = torch.empty_like
    monkeypatch.setattr(torch, "empty_like", lambda x, device=None, pin_memory=False: own(x))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: torch.device("cpu"))
    monkeypatch.setenv("ENABLE_ROUTING_REPLAY", "1")
    return load("slime/utils/routing_replay.py")


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_slimes_hook_selects_the_record_and_gathers_live_scores(hook, monkeypatch, dtype) -> None:
    """int32 is what a Sample carries; slime hands it to gather as it is."""
    rows = local_rows([rows_of(9, 1)], [9], SHAPE, Layout(pad_multiple=4), Rank())
    router = torch.nn.Linear(4, SHAPE.experts)
    hook.register_routing_replay(router)
    router.routing_replay.record(rows[:, 1].to(dtype))
    compute_topk = hook.get_routing_replay_compute_topk(lambda scores, k, **_: torch.topk(scores, k, dim=1))
    scores = router(torch.randn(len(rows), 4))
    for stage in ("replay_forward", "replay_backward"):
        monkeypatch.setenv("ROUTING_REPLAY_STAGE", stage)
        gates, experts = compute_topk(scores, SHAPE.top_k)
        assert torch.equal(experts.long(), rows[:, 1])
        assert torch.equal(gates, scores.gather(1, rows[:, 1]))
        (gradient,) = torch.autograd.grad(gates.sum(), scores, retain_graph=True)
        assert torch.equal(gradient, torch.zeros_like(scores).scatter(1, rows[:, 1], 1.0))


def test_flips_are_counted_in_slimes_own_selection(hook, monkeypatch) -> None:
    assert mismatch(hook, REPLAYED_TOPK) == ""
    rows = local_rows([rows_of(9, 1)], [9], SHAPE, Layout(pad_multiple=4), Rank())
    router = torch.nn.Linear(4, SHAPE.experts)
    hook.register_routing_replay(router)
    monkeypatch.setattr(live_choice, "_counts", [live_choice.Count()])
    scores = router(torch.randn(len(rows), 4))
    hook.get_routing_replay_compute_topk = live_choice.counting(hook, hook.get_routing_replay_compute_topk)
    select = hook.get_routing_replay_compute_topk(lambda scores, k, **_: torch.topk(scores, k, dim=1))
    monkeypatch.setenv("ROUTING_REPLAY_STAGE", "replay_forward")
    for micro_batch in range(2):
        router.routing_replay.record(rows[:, micro_batch])
        assert torch.equal(select(scores, SHAPE.top_k)[1], rows[:, micro_batch])
    monkeypatch.setenv("ROUTING_REPLAY_STAGE", "replay_backward")
    select(scores, SHAPE.top_k)
    live = scores.topk(SHAPE.top_k, dim=1).indices
    (count,) = live_choice._counts
    assert sorted(count.seen) == [0, 1]
    for micro_batch, seen in count.seen.items():
        kept = (live[:, :, None] == rows[:, micro_batch, None, :]).any(-1).sum(-1)
        assert torch.equal(seen.missing, (SHAPE.top_k - kept).int()) and seen.layers == 1


@pytest.mark.parametrize("cp", [1, 2, 4])
def test_slimes_cut_is_our_order(monkeypatch, cp: int) -> None:
    pytest.importorskip("megatron.core")
    from megatron.core import mpu

    lengths = [9, 30, 2]
    rows = [rows_of(length, seed) for seed, length in enumerate(lengths)]
    utilities = load("slime/backends/megatron_utils/cp_utils.py")
    assert str(Path(CHECKOUT)) not in sys.path
    pad = torch.full((1, SHAPE.layers, SHAPE.top_k), -1)
    whole = [torch.cat([one, pad]) for one in rows]

    def padded(one: torch.Tensor, count: int) -> torch.Tensor:
        return torch.cat([one, pad.expand(count, -1, -1)])

    for rank in range(cp):
        monkeypatch.setattr(mpu, "get_context_parallel_rank", lambda rank=rank: rank)
        monkeypatch.setattr(mpu, "get_context_parallel_world_size", lambda: cp)
        theirs = torch.cat([utilities.slice_with_cp(one, padded) for one in whole])
        ours = local_rows(rows, lengths, SHAPE, Layout(cp, pad_multiple=1), Rank(rank))
        real = theirs[:, 0, 0] >= 0
        assert len(theirs) == len(ours) and torch.equal(theirs[real], ours[real])
