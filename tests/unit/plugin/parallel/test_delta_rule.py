"""The chunked scan and the convolution against their definitions, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from t1cli.plugin.parallel import kernels
from t1cli.plugin.parallel.delta_rule import NORM_EPSILON, ScanTokens, gated_delta_rule
from t1cli.plugin.parallel.short_convolution import short_convolution

HEADS, KEY, VALUE = 2, 8, 4


def tokens_of(count: int, seed: int, dtype: torch.dtype = torch.float64) -> ScanTokens:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(1, count, HEADS, *shape, generator=generator, dtype=torch.float64)

    made = normal(KEY), normal(KEY), normal(VALUE), -normal().exp(), normal().sigmoid()
    return ScanTokens(*(tensor.to(dtype) for tensor in made))


def bounds_of(lengths: Sequence[int]) -> Tensor:
    return torch.tensor([sum(lengths[:index]) for index in range(len(lengths) + 1)])


def by_definition(tokens: ScanTokens, states: Tensor, lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
    """S_t = α (I - β k kᵀ) S + β k vᵀ and o = Sᵀ q / √K, one token after the other."""
    q, k, v, g, beta = (tensor[0] for tensor in tokens)
    q, k = (x / (x.square().sum(-1, keepdim=True) + NORM_EPSILON).sqrt() for x in (q, k))
    outputs, ends = [], []
    for piece, (start, end) in enumerate(pairwise(bounds_of(lengths).tolist())):
        state = states[piece]
        for t in range(start, end):
            key, strength = k[t].unsqueeze(-1), beta[t].view(HEADS, 1, 1)
            erase = torch.eye(KEY, dtype=q.dtype) - strength * key @ key.transpose(-1, -2)
            state = g[t].exp().view(HEADS, 1, 1) * erase @ state + strength * key @ v[t].unsqueeze(-2)
            outputs.append(state.transpose(-1, -2) @ q[t].unsqueeze(-1) / KEY**0.5)
        ends.append(state)
    return torch.stack(outputs).squeeze(-1).unsqueeze(0), torch.stack(ends)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 150), min_size=1, max_size=4), st.integers(0, 1000))
def test_chunks_give_what_the_definition_gives(lengths: list[int], seed: int) -> None:
    tokens = tokens_of(sum(lengths), seed)
    states = torch.randn(len(lengths), HEADS, KEY, VALUE, dtype=torch.float64)
    found, found_states = gated_delta_rule(tokens, states, bounds_of(lengths))
    wanted, wanted_states = by_definition(tokens, states, lengths)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(found_states, wanted_states, rtol=1e-9, atol=1e-10)


def test_gradients_are_those_of_the_definition() -> None:
    lengths = [70, 5]

    def gradients(rule: object) -> tuple[Tensor, ...]:
        tokens = ScanTokens(*(tensor.requires_grad_() for tensor in tokens_of(sum(lengths), 3)))
        generator = torch.Generator().manual_seed(5)
        states = torch.randn(2, HEADS, KEY, VALUE, dtype=torch.float64, generator=generator).requires_grad_()
        outputs, ends = rule(tokens, states, bounds_of(lengths) if rule is gated_delta_rule else lengths)  # type: ignore[operator]
        upstream = torch.randn(outputs.shape, dtype=torch.float64, generator=generator)
        loss = (outputs * upstream).sum() + ends.square().sum()
        return torch.autograd.grad(loss, (*tokens, states))

    for found, wanted in zip(gradients(gated_delta_rule), gradients(by_definition), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-9)


def test_strong_decay_neither_overflows_nor_underflows_into_nan() -> None:
    tokens = tokens_of(130, 1, torch.float32)
    tokens = tokens._replace(g=torch.full_like(tokens.g, -60.0).requires_grad_())
    outputs, ends = gated_delta_rule(tokens, torch.zeros(1, HEADS, KEY, VALUE), bounds_of([130]))
    (outputs.sum() + ends.sum()).backward()
    assert outputs.isfinite().all() and ends.isfinite().all() and tokens.g.grad.isfinite().all()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=4), st.integers(1, 4), st.integers(0, 1000))
def test_the_convolution_is_conv1d_of_each_sequence(lengths: list[int], width: int, seed: int) -> None:
    torch.manual_seed(seed)
    x, weight = torch.randn(1, sum(lengths), 6, dtype=torch.float64), torch.randn(6, 1, width, dtype=torch.float64)
    found = short_convolution(x, weight, bounds_of(lengths))
    pieces = x[0].split(lengths)
    wanted = [
        torch.nn.functional.conv1d(piece.T.unsqueeze(0), weight, padding=width - 1, groups=6)[0, :, : len(piece)].T
        for piece in pieces
    ]
    torch.testing.assert_close(found[0], torch.nn.functional.silu(torch.cat(wanted)))


def _like_fla(signature: str) -> object:
    namespace: dict[str, object] = {}
    exec(f"def function{signature}: pass", namespace)
    return namespace["function"]


@pytest.mark.parametrize("place", kernels.RECORDED)
def test_the_recorded_signatures_take_what_is_passed(place: str) -> None:
    function = _like_fla(kernels.RECORDED[place])
    assert kernels.unfit(function, place) == ""
    assert kernels.unfit(lambda q, k, x, weight: None, place).startswith(place)


def test_the_installed_kernels_take_what_is_passed() -> None:
    pytest.importorskip("fla", exc_type=ImportError)
    for place in kernels.RECORDED:
        assert kernels._found(place) is not None


def test_a_kernel_with_flas_arguments_is_called_as_it_wants_to_be() -> None:
    seen: dict[str, object] = {}

    def kernel(*, initial_state: Tensor, cu_seqlens: Tensor, **more: Tensor) -> tuple[Tensor, Tensor]:
        tokens = ScanTokens(*(more.pop(name) for name in ScanTokens._fields))
        seen.update(more)
        return gated_delta_rule(tokens, initial_state, cu_seqlens)

    tokens, states, bounds = tokens_of(9, 0), torch.zeros(1, HEADS, KEY, VALUE, dtype=torch.float64), bounds_of([9])
    for found, wanted in zip(
        kernels.scan_by(kernel, tokens, states, bounds), kernels.scan(tokens, states, bounds), strict=True
    ):
        assert torch.equal(found, wanted)
    assert seen == {"output_final_state": True, "use_qk_l2norm_in_kernel": True}
