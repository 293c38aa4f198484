"""The sampler's forward pass: KV cache in slots, prefix reuse, every expert computed densely.

For a few tiny experts it is faster to compute all of them as two matrix products and weight the results by a
scattered gate than to gather expert weights per token. The products differ from the trainer's in the last bits, and
in bf16 in more than that, which is what routing replay is for.

Shapes: N tokens of one call, S slots, H query heads, G key/value heads, L layers, K experts per token, E experts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from t1cli.embedded.model import TinyMoEConfig, rotary_tables, rotate, route

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""Layer index, q (N, H, d), k and v (N, G, d) to the mixed values (N, H * d)."""


@dataclass(frozen=True)
class DecoderSettings:
    """How the sampler differs from the trainer."""

    slots: int = 32
    max_context: int = 512
    dtype: torch.dtype = torch.bfloat16
    router_dtype: torch.dtype | None = None
    """Number format of the routers alone; None runs them in `dtype`."""
    router_noise: float = 0.0
    """Standard deviation added to the scores by which experts are selected; their gates stay those of the scores."""
    seed: int = 0


@dataclass
class Slot:
    """One row of the KV cache: the tokens whose keys, values and routing it holds."""

    index: int
    tokens: list[int] = field(default_factory=list)
    busy: bool = False
    last_used: int = 0


@dataclass(frozen=True)
class _LayerWeights:
    attention_norm: Tensor
    qkv: Tensor
    out: Tensor
    moe_norm: Tensor
    router: Tensor
    gate_up: Tensor
    """(E * 2F, D): gates of all experts, then ups of all experts."""
    down: Tensor
    """(D, E * F)."""


class Decoder:
    """Weights of one version and the cache that belongs to them. Not thread-safe: one loop owns it."""

    def __init__(self, config: TinyMoEConfig, weights: Mapping[str, Tensor], settings: DecoderSettings) -> None:
        self.config, self.settings = config, settings
        shape = (config.num_layers, settings.slots, config.num_kv_heads, settings.max_context, config.head_dim)
        self._keys = torch.zeros(shape, dtype=settings.dtype)
        self._values = torch.zeros(shape, dtype=settings.dtype)
        routes = (settings.slots, settings.max_context, config.num_layers, config.experts_per_token)
        self._routes = torch.zeros(routes, dtype=torch.uint8)
        cosine, sine = rotary_tables(torch.arange(settings.max_context), config)
        self._rotation = (cosine.to(settings.dtype), sine.to(settings.dtype))
        self._noise = torch.Generator().manual_seed(settings.seed)
        self._clock = 0
        self.slots = [Slot(index) for index in range(settings.slots)]
        self.load(weights)

    @torch.inference_mode()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Take new weights; whatever was cached belongs to the old ones and is dropped. No slot may be busy."""
        dtype = self.settings.dtype
        self._embed = weights["embed.weight"].to(dtype)
        # Logits of 8 to 16 would be rounded to steps of 0.06 in bf16, which is why engines offer an fp32 head.
        self._head = weights.get("head.weight", weights["embed.weight"]).to(dtype).float()
        self._norm = weights["norm.weight"].to(dtype)
        self._layers = [_pack_layer(weights, index, dtype) for index in range(self.config.num_layers)]
        self.flush()

    def flush(self) -> None:
        """Forget every cached prefix."""
        for slot in self.slots:
            if slot.busy:
                raise RuntimeError("the cache was flushed under a running request")
            slot.tokens.clear()

    def acquire(self, prompt: Sequence[int], *, most_cached: int | None = None) -> tuple[Slot, int] | None:
        """The free slot that shares the longest prefix with `prompt`, cut to that prefix; None when all are busy.

        At least the prompt's last token is left to compute, since its logits are what sampling starts from, and
        everything after the first `most_cached` ones.
        """
        free = [slot for slot in self.slots if not slot.busy]
        if not free:
            return None
        shared = {slot.index: _common_prefix(slot.tokens, prompt) for slot in free}
        best = max(free, key=lambda slot: (shared[slot.index], -len(slot.tokens), -slot.last_used))
        cached = min(shared[best.index], len(prompt) - 1 if most_cached is None else most_cached)
        del best.tokens[cached:]
        best.busy = True
        return best, cached

    def release(self, slot: Slot) -> None:
        """Give a slot back; its tokens stay for whoever continues them."""
        self._clock += 1
        slot.busy, slot.last_used = False, self._clock

    def routes(self, slot: Slot) -> npt.NDArray[np.int32]:
        """(tokens in the slot, L, K): the experts chosen at each of them."""
        routes: npt.NDArray[np.int32] = self._routes[slot.index, : len(slot.tokens)].numpy().astype(np.int32)
        return routes

    @torch.inference_mode()
    def prefill(self, slots: Sequence[Slot], new_tokens: Sequence[Sequence[int]], *, every: bool = False) -> Tensor:
        """Append one or more tokens to each slot; logits (len(slots), V) fp32 after the last of each.

        `every`: logits (N, V) after each token instead, slot after slot.
        """
        starts = [len(slot.tokens) for slot in slots]
        lengths = [len(tokens) for tokens in new_tokens]
        token_ids = torch.tensor([token for tokens in new_tokens for token in tokens])
        positions = torch.cat([torch.arange(s, s + n) for s, n in zip(starts, lengths, strict=True)])
        rows = torch.tensor([slot.index for slot in slots]).repeat_interleave(torch.tensor(lengths))
        segments = [(slot.index, start, n) for slot, start, n in zip(slots, starts, lengths, strict=True)]

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self._keys[layer][rows, :, positions], self._values[layer][rows, :, positions] = k, v
            return self._attend_segments(layer, q, segments)

        hidden = self._forward(token_ids, positions, rows, attend)
        for slot, tokens in zip(slots, new_tokens, strict=True):
            slot.tokens.extend(tokens)
        return self._logits(hidden if every else hidden[torch.tensor(lengths).cumsum(0) - 1])

    @torch.inference_mode()
    def decode(self, slots: Sequence[Slot], tokens: Sequence[int]) -> Tensor:
        """Append one token to each slot; logits (len(slots), V) fp32."""
        token_ids = torch.tensor(tokens)
        positions = torch.tensor([len(slot.tokens) for slot in slots])
        rows = torch.tensor([slot.index for slot in slots])
        height, width = int(rows.max()) + 1, int(positions.max()) + 1
        visible = torch.zeros(height, width, dtype=torch.bool)
        visible[:, 0] = True  # a slot that is not decoding still needs one key, or its softmax is NaN
        visible[rows] = torch.arange(width) <= positions.unsqueeze(1)
        mask = visible[:, None, None]
        grouped = self.config.num_heads != self.config.num_kv_heads

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = self._keys[layer], self._values[layer]
            keys[rows, :, positions], values[rows, :, positions] = k, v
            queries = q.new_zeros(height, *q.shape[1:]).index_copy_(0, rows, q).unsqueeze(2)
            keys, values = keys[:height, :, :width], values[:height, :, :width]
            mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, enable_gqa=grouped)
            return mixed.flatten(1)[rows]

        hidden = self._forward(token_ids, positions, rows, attend)
        for slot, token in zip(slots, tokens, strict=True):
            slot.tokens.append(token)
        return self._logits(hidden)

    def _forward(self, token_ids: Tensor, positions: Tensor, rows: Tensor, attend: Attend) -> Tensor:
        """Hidden states (N, D); keys, values and routing of the tokens land in the cache."""
        config = self.config
        rotation = (self._rotation[0][positions].unsqueeze(1), self._rotation[1][positions].unsqueeze(1))
        rotated = config.num_heads + config.num_kv_heads
        x = self._embed[token_ids]
        for index, layer in enumerate(self._layers):
            heads = F.linear(self._rms(x, layer.attention_norm), layer.qkv).view(len(x), -1, config.head_dim)
            qk = rotate(heads[:, :rotated], rotation)
            mixed = attend(index, qk[:, : config.num_heads], qk[:, config.num_heads :], heads[:, rotated:])
            x = x + F.linear(mixed, layer.out)
            update, experts = self._experts(self._rms(x, layer.moe_norm), layer)
            self._routes[rows, positions, index] = experts.to(torch.uint8)
            x = x + update
        return x

    def _experts(self, x: Tensor, layer: _LayerWeights) -> tuple[Tensor, Tensor]:
        """All experts at once, weighted by a gate that is zero for those not chosen."""
        config = self.config
        router_dtype = self.settings.router_dtype or x.dtype
        scores = F.linear(x.to(router_dtype), layer.router.to(router_dtype)).float()
        gates, experts = route(scores, config.experts_per_token, self._perturbed_choice(scores))
        weights = torch.zeros_like(scores).scatter_(-1, experts, gates).to(x.dtype)
        gate, up = F.linear(x, layer.gate_up).chunk(2, dim=-1)
        hidden = (F.silu(gate) * up).view(len(x), config.num_experts, -1) * weights.unsqueeze(-1)
        return F.linear(hidden.flatten(1), layer.down), experts

    def _perturbed_choice(self, scores: Tensor) -> Tensor | None:
        """Experts that the scores plus noise select; None without noise."""
        if self.settings.router_noise <= 0:
            return None
        noise = self.settings.router_noise * torch.randn(scores.shape, generator=self._noise)
        return route(scores + noise, self.config.experts_per_token)[1]

    def _attend_segments(self, layer: int, q: Tensor, segments: Sequence[tuple[int, int, int]]) -> Tensor:
        """Each segment's queries over its own slot, causal from where the segment starts."""
        grouped = self.config.num_heads != self.config.num_kv_heads
        mixed = []
        for (row, start, length), queries in zip(segments, torch.split(q, [n for _, _, n in segments]), strict=True):
            keys, values = self._keys[layer, row, :, : start + length], self._values[layer, row, :, : start + length]
            mask = torch.ones(length, start + length, dtype=torch.bool).tril(start)
            part = F.scaled_dot_product_attention(
                queries.transpose(0, 1)[None], keys[None], values[None], attn_mask=mask, enable_gqa=grouped
            )
            mixed.append(part[0].transpose(0, 1).flatten(1))
        return torch.cat(mixed)

    def _logits(self, hidden: Tensor) -> Tensor:
        return F.linear(self._rms(hidden, self._norm).float(), self._head)

    def _rms(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), weight, self.config.norm_epsilon)


def _pack_layer(weights: Mapping[str, Tensor], index: int, dtype: torch.dtype) -> _LayerWeights:
    def take(name: str) -> Tensor:
        return weights[f"layers.{index}.{name}"].to(dtype)

    gate, up = take("moe.gate_up").chunk(2, dim=-1)
    return _LayerWeights(
        attention_norm=take("attention_norm.weight"),
        qkv=take("attention.qkv.weight"),
        out=take("attention.out.weight"),
        moe_norm=take("moe_norm.weight"),
        router=take("moe.router.weight"),
        gate_up=torch.cat([part.transpose(1, 2).flatten(0, 1) for part in (gate, up)]).contiguous(),
        down=take("moe.down").flatten(0, 1).t().contiguous(),
    )


def _common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    for place, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return place
    return min(len(left), len(right))
