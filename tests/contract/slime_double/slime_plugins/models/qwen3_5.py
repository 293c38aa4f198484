"""Double of slime v0.3.0's Qwen3.5 layers. Kernels come from `fla`, which tests put in place."""

import copy

import torch
import torch.nn.functional as F
from fla.modules import FusedRMSNormGated, ShortConvolution
from fla.ops.gated_delta_rule import chunk_gated_delta_rule
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.transformer.spec_utils import ModuleSpec
from torch import nn

from .hf_attention import HuggingfaceAttention, _load_hf_config


class Qwen3_5GatedDeltaNet(nn.Module):
    def __init__(self, config, layer_idx, args=None):
        super().__init__()
        self.gdn_backend, self.chunk_gated_delta_rule = "fla", chunk_gated_delta_rule
        self.num_v_heads, self.num_k_heads = config.linear_num_value_heads, config.linear_num_key_heads
        self.head_k_dim, self.head_v_dim = config.linear_key_head_dim, config.linear_value_head_dim
        self.key_dim, self.value_dim = self.head_k_dim * self.num_k_heads, self.head_v_dim * self.num_v_heads
        self.conv_kernel_size = config.linear_conv_kernel_dim
        conv_dim = 2 * self.key_dim + self.value_dim
        self.conv1d = ShortConvolution(hidden_size=conv_dim, bias=False, kernel_size=self.conv_kernel_size)
        self.in_proj_qkv = nn.Linear(config.hidden_size, conv_dim, bias=False)
        self.in_proj_z = nn.Linear(config.hidden_size, self.value_dim, bias=False)
        self.in_proj_b = nn.Linear(config.hidden_size, self.num_v_heads, bias=False)
        self.in_proj_a = nn.Linear(config.hidden_size, self.num_v_heads, bias=False)
        self.dt_bias = nn.Parameter(torch.ones(self.num_v_heads))
        self.A_log = nn.Parameter(torch.empty(self.num_v_heads).uniform_(1, 16).log())
        self.norm = FusedRMSNormGated(self.head_v_dim, eps=config.rms_norm_eps, activation=config.hidden_act)
        self.out_proj = nn.Linear(self.value_dim, config.hidden_size, bias=False)

    def forward(self, hidden_states, cu_seqlens=None):
        mixed = self.in_proj_qkv(hidden_states)
        z, b, a = self.in_proj_z(hidden_states), self.in_proj_b(hidden_states), self.in_proj_a(hidden_states)
        mixed, _ = self.conv1d(x=mixed, cu_seqlens=cu_seqlens)
        q, k, v = mixed.split([self.key_dim, self.key_dim, self.value_dim], dim=-1)
        repeats = self.num_v_heads // self.num_k_heads
        q, k = (x.unflatten(-1, (-1, self.head_k_dim)).repeat_interleave(repeats, 2) for x in (q, k))
        outputs, _ = self.chunk_gated_delta_rule(
            q,
            k,
            v.unflatten(-1, (-1, self.head_v_dim)),
            g=-self.A_log.float().exp() * F.softplus(a.float() + self.dt_bias),
            beta=b.sigmoid(),
            initial_state=None,
            output_final_state=False,
            use_qk_l2norm_in_kernel=True,
            cu_seqlens=cu_seqlens,
        )
        normed = self.norm(outputs.flatten(0, 2), z.reshape(-1, self.head_v_dim))
        return self.out_proj(normed.reshape(*z.shape))


class Attention(HuggingfaceAttention):
    def __init__(self, args, config, layer_number, cp_comm_type="p2p", pg_collection=None):
        super().__init__(args, config, layer_number, cp_comm_type, pg_collection)
        self.linear_attn = Qwen3_5GatedDeltaNet(self.hf_config, self.hf_layer_idx, args=args)
        self.input_layernorm = nn.RMSNorm(self.hf_config.hidden_size, eps=self.hf_config.rms_norm_eps)

    def hf_forward(self, hidden_states, packed_seq_params):
        return self.linear_attn(self.input_layernorm(hidden_states), cu_seqlens=packed_seq_params.cu_seqlens_q)


def get_qwen3_5_spec(args, config, vp_stage):
    spec = get_gpt_decoder_block_spec(config, use_transformer_engine=True)
    types = _load_hf_config(args.hf_checkpoint).layer_types
    for index, kind in enumerate(types):
        if kind == "linear_attention":
            layer = copy.deepcopy(spec.layer_specs[index])
            layer.submodules.self_attention = ModuleSpec(module=Attention, params={"args": args})
            spec.layer_specs[index] = layer
    return spec
