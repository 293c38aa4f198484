"""Double of slime v0.3.0's Qwen3-Next layers: projections ordered by key head."""

import torch
from torch import nn

from . import qwen3_5
from .hf_attention import HuggingfaceAttention, _load_hf_config


class Qwen3NextGatedDeltaNet(qwen3_5.Qwen3_5GatedDeltaNet):
    def __init__(self, config, layer_idx, args=None):
        super().__init__(config, layer_idx, args)
        del self.in_proj_qkv, self.in_proj_z, self.in_proj_b, self.in_proj_a
        self.in_proj_qkvz = nn.Linear(config.hidden_size, 2 * self.key_dim + 2 * self.value_dim, bias=False)
        self.in_proj_ba = nn.Linear(config.hidden_size, 2 * self.num_v_heads, bias=False)

    def fix_query_key_value_ordering(self, mixed_qkvz, mixed_ba):
        share = self.num_v_heads // self.num_k_heads
        wide = share * self.head_v_dim
        qkvz = mixed_qkvz.unflatten(-1, (self.num_k_heads, -1))
        q, k, v, z = qkvz.split([self.head_k_dim, self.head_k_dim, wide, wide], dim=-1)
        b, a = mixed_ba.unflatten(-1, (self.num_k_heads, -1)).split([share, share], dim=-1)
        v, z = (x.reshape(*x.shape[:2], -1, self.head_v_dim) for x in (v, z))
        return q, k, v, z, b.flatten(2), a.flatten(2)

    def forward(self, hidden_states, cu_seqlens=None):
        qkvz, ba = self.in_proj_qkvz(hidden_states), self.in_proj_ba(hidden_states)
        q, k, v, z, b, a = self.fix_query_key_value_ordering(qkvz, ba)
        mixed = torch.cat([x.flatten(2) for x in (q, k, v)], dim=-1)
        mixed, _ = self.conv1d(x=mixed, cu_seqlens=cu_seqlens)
        # The rest is the Qwen3.5 layer's, whose projections are answered with what is known already.
        known = {
            "in_proj_qkv": lambda _: mixed,
            "in_proj_z": lambda _: z.flatten(2),
            "conv1d": lambda x, **_: (x, None),
        }
        known |= {"in_proj_b": lambda _: b, "in_proj_a": lambda _: a}
        return qwen3_5.Qwen3_5GatedDeltaNet.forward(_Over(self, known), hidden_states, cu_seqlens)


class _Over:
    def __init__(self, layer, known):
        self._layer, self._known = layer, known

    def __getattr__(self, name):
        return self._known[name] if name in self._known else getattr(self._layer, name)


class Attention(HuggingfaceAttention):
    def __init__(self, args, config, layer_number, cp_comm_type="p2p", pg_collection=None):
        super().__init__(args, config, layer_number, cp_comm_type, pg_collection)
        self.linear_attn = Qwen3NextGatedDeltaNet(self.hf_config, self.hf_layer_idx, args=args)
        self.input_layernorm = nn.RMSNorm(self.hf_config.hidden_size, eps=self.hf_config.rms_norm_eps)

    def hf_forward(self, hidden_states, packed_seq_params):
        return self.linear_attn(self.input_layernorm(hidden_states), cu_seqlens=packed_seq_params.cu_seqlens_q)


def get_qwen3_next_spec(args, config, vp_stage):
    spec = qwen3_5.get_qwen3_5_spec(args, config, vp_stage)
    for kind, layer in zip(_load_hf_config(args.hf_checkpoint).layer_types, spec.layer_specs, strict=True):
        if kind == "linear_attention":
            layer.submodules.self_attention.module = Attention
    return spec
