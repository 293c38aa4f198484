"""Double of slime v0.3.0's attention layer: same names, same call, the sequence gathered on every rank."""

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist
from megatron.core import mpu, tensor_parallel
from megatron.core.transformer.module import MegatronModule


def _load_hf_config(checkpoint_path):
    return SimpleNamespace(**json.loads((Path(checkpoint_path) / "config.json").read_text()))


class _AllGatherForDuplicatedComputation(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.rank = dist.get_rank(group)
        gathered = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
        dist.all_gather(gathered, x.contiguous(), group=group)
        return tuple(gathered)

    @staticmethod
    def backward(ctx, *grads):
        # As in slime: what the other ranks' outputs owe to this rank's tokens is not collected.
        return grads[ctx.rank], None


class HuggingfaceAttention(MegatronModule):
    def __init__(self, args, config, layer_number, cp_comm_type="p2p", pg_collection=None):
        super().__init__(config=config)
        self.args, self.config, self.layer_number = args, config, layer_number
        self.hf_layer_idx = layer_number - 1
        self.hf_config = _load_hf_config(args.hf_checkpoint)

    def forward(  # noqa: PLR0913 - slime's signature
        self,
        hidden_states,
        attention_mask,
        key_value_states=None,
        inference_context=None,
        rotary_pos_emb=None,
        rotary_pos_cos=None,
        rotary_pos_sin=None,
        rotary_pos_cos_sin=None,
        attention_bias=None,
        packed_seq_params=None,
        sequence_len_offset=None,
        *,
        inference_params=None,
    ):
        cp_size, rank = mpu.get_context_parallel_world_size(), mpu.get_context_parallel_rank()
        bounds = packed_seq_params.cu_seqlens_q.tolist()

        def held(cp_rank):
            chunks = [torch.arange(start, end).chunk(2 * cp_size) for start, end in pairwise(bounds)]
            return torch.cat([c[place] for c in chunks for place in (cp_rank, 2 * cp_size - 1 - cp_rank)])

        tensor_group = mpu.get_tensor_model_parallel_group()
        if self.args.sequence_parallel:
            hidden_states = tensor_parallel.gather_from_sequence_parallel_region(
                hidden_states, tensor_parallel_output_grad=False, group=tensor_group
            )
        group = mpu.get_context_parallel_group()
        shards = _AllGatherForDuplicatedComputation.apply(hidden_states, group) if cp_size > 1 else (hidden_states,)
        order = torch.cat([held(holder) for holder in range(cp_size)])
        hidden_states = torch.cat(shards)[order.argsort()].permute(1, 0, 2)
        output = self.hf_forward(hidden_states, packed_seq_params)
        output = output.permute(1, 0, 2)[held(rank)]
        if self.args.sequence_parallel:
            output = tensor_parallel.scatter_to_sequence_parallel_region(output, group=tensor_group)
        return output, None
