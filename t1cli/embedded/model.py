"""TinyMoE: a mixture-of-experts transformer in plain torch; the actor has a vocabulary head, the critic a value head.

Shapes: B rows, T tokens, N = B * T, L layers, E experts, K experts per token, D hidden width, F expert width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from t1cli.errors import BadInput
from t1cli.spec.model import Architecture

Head = Literal["lm", "value"]


@dataclass(frozen=True)
class TinyMoEConfig:
    """The numbers that shape the network."""

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    num_experts: int
    experts_per_token: int
    expert_size: int
    tie_word_embeddings: bool = False
    rope_theta: float = 10_000.0
    norm_epsilon: float = 1e-6

    @classmethod
    def from_architecture(cls, architecture: Architecture) -> TinyMoEConfig:
        """The config of a spec's `model.architecture`; BadInput when it names what this engine does not build."""
        _refuse_unsupported(architecture)
        return cls(
            vocab_size=architecture.vocab_size,
            hidden_size=architecture.hidden_size,
            num_layers=architecture.num_hidden_layers,
            num_heads=architecture.num_attention_heads,
            num_kv_heads=architecture.num_key_value_heads,
            head_dim=architecture.head_dim,
            num_experts=architecture.num_experts,
            experts_per_token=architecture.num_experts_per_tok,
            expert_size=architecture.moe_intermediate_size,
            tie_word_embeddings=architecture.tie_word_embeddings,
        )


@dataclass(frozen=True)
class ModelOutput:
    """One forward pass: `logits` of an actor or `values` of a critic, and the routing that was used."""

    logits: Tensor | None
    """(B, T, V) fp32 of a model with an `lm` head."""
    values: Tensor | None
    """(B, T) fp32 of a model with a `value` head."""
    routed_experts: Tensor
    """(B, T, L, K) int64."""


class TinyMoE(nn.Module):
    """The network. `routed_experts` given: those experts are used and their gates come from the live scores."""

    def __init__(self, config: TinyMoEConfig, *, head: Head = "lm", seed: int = 0, initialise: bool = True) -> None:
        super().__init__()
        self.config = config
        self.head_kind = head
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.norm_epsilon)
        outputs = config.vocab_size if head == "lm" else 1
        tied = head == "lm" and config.tie_word_embeddings
        self.head = None if tied else nn.Linear(config.hidden_size, outputs, bias=False)
        if initialise:
            self._initialise(torch.Generator().manual_seed(seed))

    def forward(self, tokens: Tensor, *, routed_experts: Tensor | None = None) -> ModelOutput:
        """tokens (B, T) int64, right-padded rows are fine; routed_experts (B, T, L, K) is replayed without gradient."""
        x = self.embed(tokens)
        rotation = rotary_tables(torch.arange(tokens.shape[1]), self.config)
        chosen: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            replay = None if routed_experts is None else routed_experts[:, :, index].long()
            x, experts = layer(x, rotation, replay)
            chosen.append(experts)
        weight = self.embed.weight if self.head is None else self.head.weight
        outputs = F.linear(self.norm(x), weight).float()
        routing = torch.stack(chosen, dim=2)
        if self.head_kind == "lm":
            return ModelOutput(outputs, None, routing)
        return ModelOutput(None, outputs.squeeze(-1), routing)

    def load_trunk(self, state: dict[str, Tensor]) -> None:
        """Take every weight of another model of this shape except its head, as a cold critic does from the actor."""
        own = self.state_dict()
        trunk = {name: value for name, value in state.items() if not name.startswith("head.") and name in own}
        self.load_state_dict({**own, **trunk})

    @torch.no_grad()
    def _initialise(self, generator: torch.Generator) -> None:
        residual_scale = 1.0 / math.sqrt(2 * self.config.num_layers)
        for name, parameter in self.named_parameters():
            if name.endswith("norm.weight"):
                continue
            if self.head_kind == "value" and name == "head.weight":
                parameter.zero_()
                continue
            scale = residual_scale if name.endswith(("attention.out.weight", "moe.down")) else 1.0
            parameter.normal_(0.0, scale * 0.6 / math.sqrt(self.config.hidden_size), generator=generator)


class Layer(nn.Module):
    """Attention and a mixture of experts, each behind its own norm."""

    def __init__(self, config: TinyMoEConfig) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(config.hidden_size, config.norm_epsilon)
        self.attention = Attention(config)
        self.moe_norm = RMSNorm(config.hidden_size, config.norm_epsilon)
        self.moe = MixtureOfExperts(config)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], replay: Tensor | None) -> tuple[Tensor, Tensor]:
        """x (B, T, D) and the chosen experts (B, T, K)."""
        x = x + self.attention(self.attention_norm(x), rotation)
        update, experts = self.moe(self.moe_norm(x), replay)
        return x + update, experts


class Attention(nn.Module):
    """Causal grouped-query attention with rotary positions."""

    def __init__(self, config: TinyMoEConfig) -> None:
        super().__init__()
        self.config = config
        heads = config.num_heads + 2 * config.num_kv_heads
        self.qkv = nn.Linear(config.hidden_size, heads * config.head_dim, bias=False)
        self.out = nn.Linear(config.num_heads * config.head_dim, config.hidden_size, bias=False)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        """(B, T, D) to (B, T, D)."""
        config = self.config
        heads = self.qkv(x).unflatten(-1, (-1, config.head_dim)).transpose(1, 2)
        q, k, v = heads.split([config.num_heads, config.num_kv_heads, config.num_kv_heads], dim=1)
        q, k = rotate(q, rotation), rotate(k, rotation)
        grouped = config.num_heads != config.num_kv_heads
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        return self.out(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class MixtureOfExperts(nn.Module):
    """Top-k of E gated experts: fp32 softmax over the router's scores, the chosen gates renormalised to sum 1."""

    def __init__(self, config: TinyMoEConfig) -> None:
        super().__init__()
        self.config = config
        self.router = nn.Linear(config.hidden_size, config.num_experts, bias=False)
        self.gate_up = nn.Parameter(torch.empty(config.num_experts, config.hidden_size, 2 * config.expert_size))
        self.down = nn.Parameter(torch.empty(config.num_experts, config.expert_size, config.hidden_size))

    def forward(self, x: Tensor, replay: Tensor | None) -> tuple[Tensor, Tensor]:
        """x (B, T, D) to (B, T, D), and the chosen experts (B, T, K)."""
        flat = x.flatten(0, 1)
        scores = self.router(flat).float()
        gates, experts = route(scores, self.config.experts_per_token, None if replay is None else replay.flatten(0, 1))
        mixed = self._mix(flat, gates, experts)
        return mixed.view_as(x), experts.view(*x.shape[:2], -1)

    def _mix(self, x: Tensor, gates: Tensor, experts: Tensor) -> Tensor:
        """Tokens sorted by expert, one matrix product per expert, sorted back and summed over K."""
        k = self.config.experts_per_token
        order = experts.flatten().argsort(stable=True)
        inverse = torch.empty_like(order).index_copy_(0, order, torch.arange(order.numel()))
        counts = torch.bincount(experts.flatten(), minlength=self.config.num_experts).tolist()
        pieces = torch.split(x.index_select(0, order // k), counts)
        mixed: Tensor = torch.cat([self._expert(index, piece) for index, piece in enumerate(pieces)])
        by_token = mixed.index_select(0, inverse).view(x.shape[0], k, -1)
        return (by_token * gates.to(x.dtype).unsqueeze(-1)).sum(1)

    def _expert(self, index: int, x: Tensor) -> Tensor:
        gate, up = (x @ self.gate_up[index]).chunk(2, dim=-1)
        return F.silu(gate) * up @ self.down[index]


class RMSNorm(nn.Module):
    """Root-mean-square norm, computed in fp32."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) to the same shape and dtype."""
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.epsilon)


def route(scores: Tensor, k: int, replay: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Gates (N, K) fp32 with gradient to `scores` (N, E) fp32, and experts (N, K), taken from `replay` if given.

    (catalogue F2)
    """
    probabilities = scores.softmax(dim=-1)
    experts = probabilities.detach().topk(k, dim=-1).indices if replay is None else replay
    gates = probabilities.gather(-1, experts)
    return gates / gates.sum(dim=-1, keepdim=True), experts


def rotary_tables(positions: Tensor, config: TinyMoEConfig) -> tuple[Tensor, Tensor]:
    """Cosine and sine (len(positions), head_dim / 2) of the rotary embedding (Su et al. 2021, RoFormer)."""
    half = config.head_dim // 2
    frequencies = config.rope_theta ** (-torch.arange(half, dtype=torch.float32) / half)
    angles = positions.float().unsqueeze(-1) * frequencies
    return angles.cos(), angles.sin()


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate the two halves of the last dim of x (..., T, head_dim) by the tables (T, head_dim / 2)."""
    cosine, sine = (table.to(x.dtype) for table in rotation)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


def parameter_count(model: nn.Module) -> int:
    """Scalars in all weights, shared ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def _refuse_unsupported(architecture: Architecture) -> None:
    wanted = {
        "num_experts": architecture.num_experts >= 2,
        "moe_intermediate_size": architecture.moe_intermediate_size > 0,
        "num_experts_per_tok": 0 < architecture.num_experts_per_tok <= architecture.num_experts,
        "intermediate_size": architecture.intermediate_size == 0,
        "first_k_dense": architecture.first_k_dense == 0,
        "shared_expert_intermediate_size": architecture.shared_expert_intermediate_size == 0,
        "head_dim": architecture.head_dim % 2 == 0,
        "num_attention_heads": architecture.num_attention_heads % architecture.num_key_value_heads == 0,
    }
    for name in _UNSUPPORTED_FEATURES:
        wanted[name] = not getattr(architecture, name)
    wrong = [name for name, fine in wanted.items() if not fine]
    if wrong:
        names = ", ".join(f"model.architecture.{name}" for name in wrong)
        raise BadInput(
            f"the embedded engine cannot build this network: {names}",
            hint="use presets/model/t1-tiny.yaml, or engine.kind: slime for production models",
        )


_UNSUPPORTED_FEATURES = (
    "qkv_bias",
    "attn_out_bias",
    "qk_layernorm",
    "attn_output_gate",
    "post_norms",
    "attention_sinks",
    "shared_expert_gate",
    "router_bias",
    "router_linear_bias",
    "expert_bias",
    "mtp_num_layers",
    "gated_deltanet",
    "mla",
    "vision",
)
