"""`python -m memory_model.oracle`: trace a real Megatron-core GPTModel without a GPU and compare what it keeps.

Needs the `oracle` extra (torch, megatron-core 0.16, einops). Tensors live on the meta device and collectives in a fake
process group, so nothing is computed; every tensor that autograd saves is counted once, by storage and module.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from memory_model.architecture import Architecture, LayerKind
from memory_model.device import H100_80
from memory_model.layout import Layout, stages
from memory_model.terms.layer import layer_memory
from memory_model.terms.logits import local_logits
from memory_model.terms.term import Situation
from memory_model.units import MIB
from memory_model.workload import Experts, Loss, Workload

TRACED_LAYERS = (1, 2)
"""A layer's bytes are the difference between two traces, so ends of the model cancel."""


@dataclass(frozen=True)
class Shape:
    """One model shape and layout to trace."""

    name: str
    arch: Architecture
    tp: int
    ep: int
    sequence_tokens: int


@dataclass(frozen=True)
class Comparison:
    """Bytes that one layer (and the head) keeps: traced, and by formula."""

    name: str
    traced_mib: float
    formula_mib: float
    difference_pct: float
    head_traced_mib: float
    head_formula_mib: float
    traced_by_module: dict[str, float]
    formula_by_piece: dict[str, float]


def _arch(
    hidden: int, heads: int, kv: int, ffn: int, vocab: int, *, head_dim: int = 128, qk_norm: bool = False
) -> Architecture:
    return Architecture(hidden, 1, heads, kv, head_dim, vocab, intermediate_size=ffn, qk_layernorm=qk_norm)


def _moe(
    hidden: int, heads: int, kv: int, experts: int, top: int, width: int, vocab: int, shared: int = 0
) -> Architecture:
    return Architecture(
        hidden,
        1,
        heads,
        kv,
        128,
        vocab,
        num_experts=experts,
        num_experts_per_tok=top,
        moe_intermediate_size=width,
        shared_expert_intermediate_size=shared,
    )


SHAPES = (
    Shape("Llama-3.1-8B, TP1", _arch(4096, 32, 8, 14336, 128_256), 1, 1, 4096),
    Shape("Llama-3.1-8B, TP4", _arch(4096, 32, 8, 14336, 128_256), 4, 1, 8192),
    Shape("Llama-3.1-70B, TP8", _arch(8192, 64, 8, 28672, 128_256), 8, 1, 8192),
    Shape("Qwen3-32B, TP4", _arch(5120, 64, 8, 25600, 151_936, qk_norm=True), 4, 1, 8192),
    Shape("Qwen3-30B-A3B, TP2 EP8", _moe(2048, 32, 4, 128, 8, 768, 151_936), 2, 8, 4096),
    Shape("Mixtral-8x7B, TP2 EP8", _moe(4096, 32, 8, 8, 2, 14336, 32_000), 2, 8, 4096),
    Shape("Qwen3-235B-A22B, TP4 EP8", _moe(4096, 64, 4, 128, 8, 1536, 151_936), 4, 8, 8192),
    Shape("shared expert, TP2 EP8", _moe(3072, 32, 8, 64, 8, 1024, 131_072, 1024), 2, 8, 8192),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Trace the shapes and print the comparison."""
    parser = argparse.ArgumentParser(prog="python -m memory_model.oracle", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", default="", help="shapes whose name contains this")
    options = parser.parse_args(arguments)
    try:
        found = [compare(shape) for shape in SHAPES if options.only in shape.name]
    except ImportError as problem:
        print(f"error: {problem}\nhint: pip install -e '.[oracle]' (megatron-core 0.16)", file=sys.stderr)
        return 3
    if options.json:
        print(json.dumps({"format_version": 1, "shapes": [asdict(item) for item in found]}, indent=1))
        return 0
    for item in found:
        print(
            f"{item.name:28} a layer keeps {item.traced_mib:9.1f} MiB traced, {item.formula_mib:9.1f} by formula "
            f"({item.difference_pct:+.1f} %); head {item.head_traced_mib:8.1f} / {item.head_formula_mib:8.1f}"
        )
    return 0


def compare(shape: Shape) -> Comparison:
    """Trace one shape with one and with two layers, and set the difference against the formulas."""
    from memory_model.oracle_trace import trace

    few, more = (trace(shape, layers) for layers in TRACED_LAYERS)
    by_module = {name: (more.get(name, 0) - few.get(name, 0)) / MIB for name in more}
    traced = sum(by_module.values())
    head = sum(few.values()) / MIB - traced
    pieces = formula_pieces(shape)
    formula = sum(pieces.values())
    return Comparison(
        shape.name,
        traced,
        formula,
        100 * (formula / traced - 1),
        head,
        _head_formula(shape),
        {name: size for name, size in by_module.items() if abs(size) > 1e-3},
        pieces,
    )


def formula_pieces(shape: Shape) -> dict[str, float]:
    """MiB that the formulas say one layer keeps, piece by piece."""
    at = _situation(shape)
    kind: LayerKind = "moe" if shape.arch.is_moe else "dense"
    return {piece.name: piece.num_bytes / MIB for piece in layer_memory(at, kind).pieces}


def _situation(shape: Shape) -> Situation:
    layout = Layout(world=max(shape.tp, shape.ep), tp=shape.tp, ep=shape.ep)
    workload = Workload(
        sequence_tokens=shape.sequence_tokens,
        loss=Loss("cross_entropy"),
        experts=Experts(capacity_factor=1.0),
        train_offload=False,
    )
    stage = stages(shape.arch.num_hidden_layers, layout)[0]
    return Situation(shape.arch, layout, workload, stage, "actor", shape.sequence_tokens, H100_80)


def _head_formula(shape: Shape) -> float:
    """fp32 softmax, final norm's input and output."""
    at = _situation(shape)
    return (4.0 * local_logits(at) + 2 * 2.0 * shape.arch.hidden_size * at.sequence_tokens) / MIB


if __name__ == "__main__":
    sys.exit(main())
