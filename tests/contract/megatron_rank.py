"""One rank of a tiny Megatron-core GPT with MoE layers on CPU, recording and replaying routing; prints what it saw.

Run by test_megatron_replay.py in processes of their own, since Megatron reads torch.cuda at every corner and has to be
shown a CPU there. Arguments: rank, world size, TP, EP, path of the rendezvous file.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
warnings.filterwarnings("ignore")
sys.path.insert(0, str(Path(__file__).parents[2]))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

LAYERS, EXPERTS, TOP_K, TOKENS, VOCABULARY = 2, 8, 2, 16, 64


class _Null:
    """Stands for a CUDA stream or event."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, _: str) -> Any:
        return lambda *_a, **_k: _Null()


def show_megatron_a_cpu() -> None:
    cuda, cpu = torch.cuda, torch.device("cpu")
    cuda.current_device = lambda: cpu
    cuda.Stream, cuda.Event = _Null, type("_NullEvent", (_Null,), {})
    # Not one function for both: torch._dynamo keeps a rule per function and refuses two.
    cuda.current_stream = lambda *_a, **_k: _Null()
    cuda.default_stream = lambda *_a, **_k: _Null()
    cuda.stream = lambda _: contextlib.nullcontext()
    cuda.synchronize = lambda *_a, **_k: None
    cuda.set_device = lambda *_a, **_k: None
    torch.Tensor.cuda = lambda tensor, *_a, **_k: tensor
    torch.nn.Module.cuda = lambda module, *_a, **_k: module
    own = dist.all_to_all_single

    def with_whole_splits(out: Any, inp: Any, output_split_sizes: Any = None, input_split_sizes: Any = None, **k: Any):
        whole = [None if s is None else [int(i) for i in s] for s in (output_split_sizes, input_split_sizes)]
        return own(out, inp, *whole, **k)

    dist.all_to_all_single = with_whole_splits
    from megatron.core.tensor_parallel import random as states
    from megatron.core.transformer.moe import moe_utils

    @contextlib.contextmanager
    def fork(_tracker: Any, _name: str = "") -> Iterator[None]:
        yield

    states.CudaRNGStatesTracker.fork = fork
    if not hasattr(moe_utils, "te_general_gemm"):
        moe_utils.te_general_gemm = None


class Norm(torch.nn.Module):
    """Megatron's own norm refuses sequence parallelism without Transformer Engine."""

    def __init__(self, config: Any, hidden_size: int, eps: float = 1e-6, **_: Any) -> None:
        super().__init__()
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.weight.sequence_parallel = config.sequence_parallel

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, x.shape[-1:], self.weight, self.eps)


class Attention(torch.nn.Module):
    """Megatron's own makes its causal mask on a CUDA device."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        q, k, v = (tensor.permute(1, 2, 0, 3) for tensor in (query, key, value))
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.permute(2, 0, 1, 3).flatten(2)


def build(tp: int, ep: int) -> Any:
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.transformer_block import TransformerBlockSubmodules

    config = TransformerConfig(
        num_layers=LAYERS, hidden_size=32, num_attention_heads=4, ffn_hidden_size=32, moe_ffn_hidden_size=32,
        num_moe_experts=EXPERTS, moe_router_topk=TOP_K, moe_router_pre_softmax=True, moe_enable_routing_replay=True,
        moe_router_load_balancing_type="none", moe_token_dispatcher_type="alltoall", moe_grouped_gemm=False,
        tensor_model_parallel_size=tp, expert_model_parallel_size=ep, expert_tensor_parallel_size=1,
        sequence_parallel=tp > 1, gated_linear_unit=True, activation_func=torch.nn.functional.silu,
        add_bias_linear=False, normalization="RMSNorm", hidden_dropout=0.0, attention_dropout=0.0,
        use_cpu_initialization=True, bias_activation_fusion=False, bias_dropout_fusion=False,
        masked_softmax_fusion=False, apply_rope_fusion=False, gradient_accumulation_fusion=False,
        persist_layer_norm=False, moe_router_dtype="fp32", init_method_std=0.2,
    )  # fmt: skip
    spec = get_gpt_layer_local_spec(num_experts=EXPERTS, moe_grouped_gemm=False, qk_layernorm=False)
    spec.submodules.input_layernorm = spec.submodules.pre_mlp_layernorm = Norm
    spec.submodules.self_attention.submodules.core_attention = Attention
    block = TransformerBlockSubmodules(layer_specs=[spec] * LAYERS, layer_norm=Norm)
    torch.manual_seed(1)
    return GPTModel(
        config=config, transformer_layer_spec=block, vocab_size=VOCABULARY, max_sequence_length=TOKENS,
        share_embeddings_and_output_weights=False, position_embedding_type="rope",
    )  # fmt: skip


class Bench:
    """A model, tokens, and its loss over every token but the last, which predicts nothing."""

    def __init__(self, rank: int, tp: int, ep: int) -> None:
        from t1cli.plugin.parallel.order import Layout, Rank
        from t1cli.plugin.routing.megatron_routers import MegatronReplay
        from t1cli.terminal.trajectory.routing import RoutingShape

        self.model = build(tp, ep)
        self.shape = RoutingShape(LAYERS, TOP_K, EXPERTS)
        self.layout, self.rank = Layout(1, tp, tp > 1, pad_multiple=1), Rank(0, rank % tp)
        self.replay = MegatronReplay([self.model])
        generator = torch.Generator().manual_seed(7 + rank // tp)
        self.tokens = torch.randint(0, VOCABULARY, (1, TOKENS), generator=generator)

    def loss(self) -> torch.Tensor:
        positions = torch.arange(TOKENS)[None]
        labels = self.tokens.roll(-1, dims=1)
        return self.model(self.tokens, positions, None, labels=labels)[0, :-1].mean()

    def recorded(self) -> tuple[float, torch.Tensor]:
        """The loss of a free pass and its routing (T, L, K), gathered from the ranks that share the sequence."""
        from megatron.core import parallel_state
        from megatron.core.transformer.moe.router_replay import RouterReplay, RouterReplayAction

        RouterReplay.set_global_router_replay_action(RouterReplayAction.RECORD)
        loss = float(self.loss().detach())
        RouterReplay.clear_global_router_replay_action()
        mine = torch.stack(RouterReplay.get_recorded_data(), dim=1)
        RouterReplay.clear_global_indices()
        if not self.layout.sequence_parallel:
            return loss, mine
        parts = [torch.empty_like(mine) for _ in range(self.layout.tensor_parallel)]
        dist.all_gather(parts, mine, group=parallel_state.get_tensor_model_parallel_group())
        return loss, torch.cat(parts)

    def replayed(self, rows: torch.Tensor) -> tuple[float, list[torch.Tensor]]:
        """The loss on rows (T - 1, L, K), and the gradients of the routers' weights."""
        from t1cli.plugin.routing.rows import local_rows

        own = local_rows([rows], [TOKENS], self.shape, self.layout, self.rank)
        self.model.zero_grad()
        with self.replay.forward(own):
            loss = self.loss()
        loss.backward()
        self.replay.forget()
        weights = [layer.mlp.router.weight for layer in self.model.decoder.layers]
        return float(loss.detach()), [weight.grad.clone() for weight in weights]

    def free_gradients(self) -> list[torch.Tensor]:
        self.model.zero_grad()
        self.loss().backward()
        return [layer.mlp.router.weight.grad.clone() for layer in self.model.decoder.layers]


def main() -> None:
    rank, world, tp, ep = (int(value) for value in sys.argv[1:5])
    torch.set_num_threads(1)
    show_megatron_a_cpu()
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[5]}", rank=rank, world_size=world)
    from megatron.core import parallel_state

    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=tp, expert_model_parallel_size=ep, expert_tensor_parallel_size=1
    )
    bench = Bench(rank, tp, ep)
    free, rows = bench.recorded()
    own, own_gradients = bench.replayed(rows[:-1])
    other, other_gradients = bench.replayed((rows[:-1] + 1) % EXPERTS)
    shifted, _ = bench.replayed(rows[:-1].roll(1, dims=0))
    wanted = bench.free_gradients()
    print(
        json.dumps(
            {
                "free": free,
                "own": own,
                "other": other,
                "shifted": shifted,
                "gradient_error": max(
                    float((a - b).abs().max() / b.abs().max()) for a, b in zip(own_gradients, wanted, strict=True)
                ),
                "gradient_size": min(float(gradient.abs().max()) for gradient in (*own_gradients, *other_gradients)),
                "layers": bench.replay.layers,
                "rows_left": sum(len(r.router_replay.replay_backward_list) for r in bench.replay._routers),
            }
        )
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
