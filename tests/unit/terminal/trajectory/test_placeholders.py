"""Where a neighbour's routing row can stand in: exactly where no gradient changes, tried on a real MoE transformer."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from t1cli.terminal.trajectory.draft import no_gradient_at

torch = pytest.importorskip("torch", reason="torch (extra `embedded`) is not installed")
TOKENS, LAYERS, CHOSEN, EXPERTS = 9, 2, 2, 8


@pytest.fixture(scope="module")
def tiny() -> SimpleNamespace:
    """A two-layer MoE actor, one sequence, and free routing for it."""
    from t1cli.embedded.model import TinyMoE, TinyMoEConfig

    config = TinyMoEConfig(
        vocab_size=32,
        hidden_size=32,
        num_layers=LAYERS,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        num_experts=EXPERTS,
        experts_per_token=CHOSEN,
        expert_size=16,
    )
    model = TinyMoE(config, seed=1)
    tokens = torch.arange(TOKENS)[None] % 32
    routing = torch.stack([torch.arange(CHOSEN)] * LAYERS).expand(1, TOKENS - 1, LAYERS, CHOSEN).contiguous()
    return SimpleNamespace(model=model, tokens=tokens, routing=routing)


def gradients(tiny: SimpleNamespace, routing: object, trained: list[int]) -> object:
    """All gradients of the loss over the trained positions' tokens, as one vector."""
    tiny.model.zero_grad()
    logits = tiny.model(tiny.tokens[:, :-1], routed_experts=routing).logits
    log_probs = logits.log_softmax(-1).gather(-1, tiny.tokens[:, 1:, None])[0, :, 0]
    sum(-log_probs[position - 1] for position in trained).backward()
    return torch.cat([p.grad.flatten() for p in tiny.model.parameters() if p.grad is not None])


@pytest.mark.parametrize("trained", [[3], [2, 5], [4, 5, 6], [8]])
def test_a_row_is_out_of_every_gradient_exactly_from_the_last_trained_token_on(
    tiny: SimpleNamespace, trained: list[int]
) -> None:
    reference = gradients(tiny, tiny.routing, trained)
    for position in range(TOKENS - 1):
        other = tiny.routing.clone()
        other[0, position] += 4
        same = bool(torch.equal(gradients(tiny, other, trained), reference))
        assert same == no_gradient_at(position, trained[-1]), f"position {position}, trained {trained}"
