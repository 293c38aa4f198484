"""The sampler's cached, dense forward pass computes what the trainer's does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from t1cli.embedded.decoder import Decoder, DecoderSettings
from t1cli.embedded.model import TinyMoE, TinyMoEConfig

CONFIG = TinyMoEConfig(
    vocab_size=512,
    hidden_size=48,
    num_layers=3,
    num_heads=4,
    num_kv_heads=2,
    head_dim=12,
    num_experts=8,
    experts_per_token=2,
    expert_size=16,
)
MODEL = TinyMoE(CONFIG, seed=3)


def _sequences() -> list[list[int]]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(0, 512, (length,), generator=generator).tolist() for length in (30, 44, 21)]


def _decoder(dtype: torch.dtype = torch.float32, noise: float = 0.0) -> Decoder:
    settings = DecoderSettings(slots=6, max_context=64, dtype=dtype, router_noise=noise)
    return Decoder(CONFIG, MODEL.state_dict(), settings)


def _last_logits(decoder: Decoder, sequences: Sequence[list[int]], prompt: int) -> dict[int, torch.Tensor]:
    """Logits after the last token of each: a prefill in two parts, then token by token, all of them together."""
    slots = [decoder.acquire(tokens)[0] for tokens in sequences]  # type: ignore[index]
    decoder.prefill(slots, [tokens[: prompt - 3] for tokens in sequences])
    last = dict(enumerate(decoder.prefill(slots, [tokens[prompt - 3 : prompt] for tokens in sequences])))
    for place in range(prompt, max(map(len, sequences))):
        active = [index for index, tokens in enumerate(sequences) if len(tokens) > place]
        logits = decoder.decode([slots[i] for i in active], [sequences[i][place] for i in active])
        last |= dict(zip(active, logits, strict=True))
    return last


def test_cached_decoding_equals_the_full_forward_pass() -> None:
    decoder, sequences = _decoder(), _sequences()
    last = _last_logits(decoder, sequences, prompt=20)
    for index, tokens in enumerate(sequences):
        with torch.no_grad():
            output = MODEL(torch.tensor([tokens]))
        torch.testing.assert_close(last[index], output.logits[0, -1], atol=2e-5, rtol=1e-4)
        assert (decoder.routes(decoder.slots[index]) == output.routed_experts[0].numpy()).all()


def test_batched_equals_single_within_bf16() -> None:
    sequences = _sequences()
    together = _last_logits(_decoder(torch.bfloat16), sequences, prompt=20)
    for index, tokens in enumerate(sequences):
        alone = _last_logits(_decoder(torch.bfloat16), [tokens], prompt=20)[0]
        assert (together[index].log_softmax(-1) - alone.log_softmax(-1)).abs().max() < 0.05


@pytest.mark.catalogue("F2")
def test_bf16_flips_some_expert_sets_of_the_fp32_trainer() -> None:
    decoder, sequences = _decoder(torch.bfloat16), _sequences()
    _last_logits(decoder, sequences, prompt=20)
    flips = total = 0
    for index, tokens in enumerate(sequences):
        with torch.no_grad():
            mine = MODEL(torch.tensor([tokens])).routed_experts[0].sort(-1).values
        theirs = torch.from_numpy(decoder.routes(decoder.slots[index])).sort(-1).values
        flips, total = flips + int((mine != theirs).any(-1).sum()), total + mine[..., 0].numel()
    assert 0 < flips < 0.2 * total


def test_a_longer_prompt_reuses_the_slot_that_holds_its_prefix() -> None:
    decoder, sequences = _decoder(), _sequences()
    first, _ = decoder.acquire(sequences[0])  # type: ignore[misc]
    decoder.prefill([first], [sequences[0]])
    decoder.release(first)
    other, cached = decoder.acquire(sequences[1])  # type: ignore[misc]
    assert other is not first and cached == 0
    again, cached = decoder.acquire([*sequences[0], 5, 6])  # type: ignore[misc]
    assert again is first and cached == len(sequences[0])
    logits = decoder.prefill([again], [[5, 6]])
    with torch.no_grad():
        expected = MODEL(torch.tensor([[*sequences[0], 5, 6]])).logits[0, -1]
    torch.testing.assert_close(logits[0], expected, atol=2e-5, rtol=1e-4)


def test_a_repeated_prompt_still_computes_its_last_token() -> None:
    decoder, tokens = _decoder(), _sequences()[0]
    slot, _ = decoder.acquire(tokens)  # type: ignore[misc]
    decoder.prefill([slot], [tokens])
    decoder.release(slot)
    _, cached = decoder.acquire(tokens)  # type: ignore[misc]
    assert cached == len(tokens) - 1


def test_new_weights_drop_the_cache_and_busy_slots_forbid_it() -> None:
    decoder, tokens = _decoder(), _sequences()[0]
    slot, _ = decoder.acquire(tokens)  # type: ignore[misc]
    decoder.prefill([slot], [tokens])
    with pytest.raises(RuntimeError, match="running request"):
        decoder.load(MODEL.state_dict())
    decoder.release(slot)
    decoder.load(TinyMoE(CONFIG, seed=4).state_dict())
    assert decoder.acquire(tokens)[1] == 0  # type: ignore[index]


def test_router_noise_changes_the_routing_only_when_it_is_on() -> None:
    quiet, noisy, tokens = _decoder(), _decoder(noise=1.0), _sequences()[0]
    for decoder in (quiet, noisy):
        decoder.prefill([decoder.acquire(tokens)[0]], [tokens])  # type: ignore[index]
    with torch.no_grad():
        routed = MODEL(torch.tensor([tokens])).routed_experts[0].numpy()
    assert (quiet.routes(quiet.slots[0]) == routed).all()
    assert (noisy.routes(noisy.slots[0]) != routed).any()


@pytest.mark.catalogue("F2")
def test_replayed_routing_is_used_and_its_gates_carry_gradient() -> None:
    tokens = torch.tensor([_sequences()[0]])
    free = MODEL(tokens)
    same = MODEL(tokens, routed_experts=free.routed_experts)
    torch.testing.assert_close(free.logits, same.logits)
    forced = (free.routed_experts + 3) % CONFIG.num_experts
    output = MODEL(tokens, routed_experts=forced)
    assert (output.routed_experts == forced).all()
    assert (output.logits - free.logits).abs().max() > 1e-3
    router = MODEL.layers[0].moe.router.weight
    (gradient,) = torch.autograd.grad(output.logits.square().mean(), router)
    assert gradient.abs().sum() > 0
