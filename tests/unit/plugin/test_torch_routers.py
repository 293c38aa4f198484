"""Routers in plain torch under replay: the selection is the record's, everything else is theirs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from t1cli.errors import T1Error
from t1cli.plugin.routing.torch_routers import replaying
from t1cli.terminal.trajectory.routing import RoutingShape, WrongRouting

HIDDEN, EXPERTS, TOP_K = 6, 5, 2
SHAPE = RoutingShape(layers=2, top_k=TOP_K, experts=EXPERTS)
Router = Callable[["Moe", Tensor], tuple[Tensor, Tensor]]


def softmax_first(moe: Moe, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Qwen's: probabilities over all experts, then the chosen ones renormalised."""
    gates, experts = scores.softmax(-1).topk(TOP_K, dim=-1)
    return gates / gates.sum(-1, keepdim=True), experts


def softmax_after(moe: Moe, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Mixtral's: top-k over the scores, softmax over what was chosen."""
    chosen, experts = torch.topk(scores, TOP_K)
    return chosen.softmax(-1), experts


def sigmoid_with_bias(moe: Moe, scores: Tensor) -> tuple[Tensor, Tensor]:
    """GLM's and DeepSeek's: a bias that selects and never gates."""
    gates = scores.sigmoid()
    experts = torch.topk(gates + moe.bias, k=TOP_K, dim=-1, sorted=False)[1]
    return gates.gather(-1, experts), experts


class Gate(nn.Module):
    def __init__(self, route: Router, moe: Moe) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(EXPERTS, HIDDEN, dtype=torch.float64))
        self._route, self._moe = route, [moe]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self._route(self._moe[0], x @ self.weight.T)


class Moe(nn.Module):
    """Two layers of linear experts."""

    def __init__(self, route: Router) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.bias = torch.linspace(-0.2, 0.2, EXPERTS, dtype=torch.float64)
        self.gates = nn.ModuleList(Gate(route, self) for _ in range(SHAPE.layers))
        self.experts = nn.Parameter(torch.randn(SHAPE.layers, EXPERTS, HIDDEN, HIDDEN, dtype=torch.float64))
        self.chosen: list[Tensor] = []

    def layer(self, x: Tensor, index: int) -> Tensor:
        gates, experts = self.gates[index](x)
        self.chosen.append(experts.detach())
        return x + torch.einsum("nk,nkij,nj->ni", gates, self.experts[index][experts], x)

    def forward(self, x: Tensor) -> Tensor:
        for index in range(SHAPE.layers):
            x = self.layer(x, index)
        return x.square().mean()


ROUTERS = [softmax_first, softmax_after, sigmoid_with_bias]


def recorded(tokens: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(tokens, SHAPE.layers, EXPERTS, generator=generator).topk(TOP_K, dim=-1).indices


@pytest.fixture
def x() -> Tensor:
    return torch.randn(7, HIDDEN, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("route", ROUTERS)
def test_its_own_routes_change_nothing_and_others_change_the_loss(route: Router, x: Tensor) -> None:
    moe = Moe(route)
    free = moe(x)
    own = torch.stack(moe.chosen, dim=1)
    with replaying(list(moe.gates), own, SHAPE):
        assert torch.equal(moe(x), free)
    moe.chosen.clear()
    other = recorded(7)
    with replaying(list(moe.gates), other, SHAPE):
        assert moe(x) != free
    assert torch.equal(torch.stack(moe.chosen, dim=1), other)
    assert torch.equal(moe(x), free), "outside the block the router is itself again"


@pytest.mark.parametrize("route", ROUTERS)
def test_gate_weights_pass_a_gradient_check_and_indices_have_none(route: Router, x: Tensor) -> None:
    moe, rows = Moe(route), recorded(7)
    weights = [gate.weight for gate in moe.gates]

    def loss(*_: Tensor) -> Tensor:
        with replaying(list(moe.gates), rows, SHAPE):
            return moe(x)

    assert torch.autograd.gradcheck(loss, weights)
    gradients = torch.autograd.grad(loss(), weights)
    assert all(gradient.abs().sum() > 0 for gradient in gradients)
    assert not any(experts.requires_grad for experts in moe.chosen)


def test_only_recorded_experts_get_gradient(x: Tensor) -> None:
    """softmax_after gates on the chosen alone: an expert that the record never names has a gradient of exactly 0."""
    moe = Moe(softmax_after)
    rows = torch.tensor([0, 1]).expand(7, SHAPE.layers, TOP_K)
    with replaying(list(moe.gates), rows, SHAPE):
        moe(x).backward()
    assert moe.experts.grad is not None and moe.gates[0].weight.grad is not None
    assert moe.experts.grad[:, 2:].abs().sum() == 0 and moe.experts.grad[:, :2].abs().sum() > 0
    assert moe.gates[0].weight.grad[2:].abs().sum() == 0 and moe.gates[0].weight.grad[:2].abs().sum() > 0


def test_a_recomputed_pass_replays_again(x: Tensor) -> None:
    moe, rows = Moe(softmax_first), recorded(7)
    with replaying(list(moe.gates), rows, SHAPE):
        moe(x).backward()
    wanted = moe.gates[0].weight.grad.clone()
    moe.zero_grad()
    with replaying(list(moe.gates), rows, SHAPE):
        hidden = x
        for index in range(SHAPE.layers):
            hidden = checkpoint(moe.layer, hidden, index, use_reentrant=False)
        hidden.square().mean().backward()
    torch.testing.assert_close(moe.gates[0].weight.grad, wanted)


def test_a_selection_that_is_not_seen_is_an_error(x: Tensor) -> None:
    def by_sorting(moe: Moe, scores: Tensor) -> tuple[Tensor, Tensor]:
        experts = scores.argsort(-1, descending=True)[:, :TOP_K]
        return scores.gather(-1, experts), experts

    moe = Moe(by_sorting)
    with replaying(list(moe.gates), recorded(7), SHAPE), pytest.raises(T1Error, match="selected 0 times"):
        moe(x)
    assert moe(x).isfinite()


def test_rows_for_other_tokens_are_an_error(x: Tensor) -> None:
    moe = Moe(softmax_first)
    with replaying(list(moe.gates), recorded(6), SHAPE), pytest.raises(WrongRouting, match="6 routing rows for 7"):
        moe(x)
    with pytest.raises(WrongRouting, match="for 1 routers"), replaying([moe.gates[0]], recorded(7), SHAPE):
        pass


def test_top_k_over_something_else_is_left_alone(x: Tensor) -> None:
    """Group-limited routers choose groups first; that choice is not what was recorded."""

    def grouped(moe: Moe, scores: Tensor) -> tuple[Tensor, Tensor]:
        best_group = scores[:, :4].view(-1, 2, 2).sum(-1).topk(1, dim=-1).indices
        moe.groups = best_group
        return softmax_first(moe, scores)

    moe, rows = Moe(grouped), recorded(7)
    moe(x)
    free = moe.groups
    with replaying(list(moe.gates), rows, SHAPE):
        moe(x)
    assert moe.groups.shape == free.shape
