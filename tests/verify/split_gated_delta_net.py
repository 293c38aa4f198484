"""GatedDeltaNet over real processes (gloo) against the unsplit layer: outputs, gradients, a control, and memory.

    python tests/verify/split_gated_delta_net.py --ranks 4 [--tokens 4096] [--memory]

prints one JSON object a case. Every rank is a process of its own with one thread.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from gloo_worlds import join, run_world
from torch import Tensor

from t1cli.plugin.parallel.gated_delta_net import GatedDeltaNet, GatedDeltaNetSizes
from t1cli.plugin.parallel.line import Line
from t1cli.plugin.parallel.order import Layout, Rank, local_spans, positions
from t1cli.plugin.parallel.parts import Part, cut_stream, exchange
from t1cli.plugin.parallel.relayout import to_part, to_shard

ALONE = Line(None, None, None)
SIZES = GatedDeltaNetSizes(hidden_size=64, num_key_heads=2, num_value_heads=4, key_head_dim=32, value_head_dim=32)


@dataclass(frozen=True)
class Case:
    """Packed sequences of these lengths."""

    name: str
    lengths: tuple[int, ...]
    head_groups: int = 1
    passes_state: bool = True
    zigzag: bool = True


def cases(ranks: int, scale: int = 1) -> Iterator[Case]:
    """Lengths padded to ranks × chunk, others that slime's padding gives, others that no padding gives."""
    whole, even = 64 * ranks, 2 * ranks
    padded = (4 * scale * whole, whole, scale * whole)
    yield Case("padded to ranks x chunk", padded)
    yield Case("padded, heads in groups", padded, head_groups=2)
    yield Case("one sequence", (4 * scale * whole,))
    yield Case("other lengths, zig-zag", (25 * scale * even, even, 41 * scale * even + even))
    yield Case("other lengths, no zig-zag", (201 * scale, 1, 13, 389 * scale), zigzag=False)
    yield Case("fewer chunks than ranks", (70,), zigzag=False)
    yield Case("control: no state passed", padded, passes_state=False)


def compare(case: Case, ranks: int, rank: int) -> dict[str, Any]:
    """Largest differences over all ranks, relative to the largest value of the unsplit tensor."""
    layer, hidden, upstream = _setting(sum(case.lengths))
    wanted, wanted_hidden, wanted_weights = _gradients(layer, hidden, upstream, _unsplit(layer, case.lengths))
    held = _held(case, ranks, rank)
    found, hidden_grad, weights = _gradients(layer, hidden[held], upstream[held], _split(layer, case, ranks, rank))
    for weight in weights.values():
        dist.all_reduce(weight)
    by_weight = {name: _error(weights[name], wanted_weights[name], wanted_weights[name]) for name in weights}
    worst = max(by_weight, key=by_weight.__getitem__)
    figures = torch.tensor(
        [
            _error(found, wanted[held], wanted),
            _error(hidden_grad, wanted_hidden[held], wanted_hidden),
            by_weight[worst],
            float(not torch.equal(found, wanted[held])),
            float(not torch.equal(hidden_grad, wanted_hidden[held])),
        ],
        dtype=torch.float64,
    )
    dist.all_reduce(figures, op=dist.ReduceOp.MAX)
    output, inputs, weight, differs, grads_differ = figures.tolist()
    return {
        "case": case.name,
        "ranks": ranks,
        "tokens": sum(case.lengths),
        "output_equal": not differs,
        "output_error": output,
        "input_gradient_equal": not grads_differ,
        "input_gradient_error": inputs,
        "weight_gradient_error": weight,
        "worst_weight": worst,
    }


def _setting(tokens: int) -> tuple[GatedDeltaNet, Tensor, Tensor]:
    torch.manual_seed(0)
    layer = GatedDeltaNet(SIZES)
    return layer, torch.randn(tokens, SIZES.hidden_size), torch.randn(tokens, SIZES.hidden_size)


def _unsplit(layer: GatedDeltaNet, lengths: Sequence[int]) -> Any:
    (whole,) = cut_stream(lengths, 1)
    return lambda hidden: layer(hidden, whole, ALONE)


def _split(layer: GatedDeltaNet, case: Case, ranks: int, rank: int) -> Any:
    parts = cut_stream(case.lengths, ranks)
    part = parts[rank]
    line = Line(None, part.previous, part.following) if case.passes_state else ALONE
    if not case.zigzag:
        return lambda hidden: layer(hidden, part, line, head_groups=case.head_groups)
    way = exchange(case.lengths, parts, rank)
    return lambda hidden: to_shard(layer(to_part(hidden, way), part, line, head_groups=case.head_groups), way)


def _held(case: Case, ranks: int, rank: int) -> list[int]:
    """Positions of the packed stream that the rank is given."""
    if not case.zigzag:
        part: Part = cut_stream(case.lengths, ranks)[rank]
        return list(range(part.start, part.end))
    return positions(local_spans(case.lengths, Layout(context_parallel=ranks, pad_multiple=1), Rank(rank)))


def _gradients(
    layer: GatedDeltaNet, hidden: Tensor, upstream: Tensor, run: Any
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Output, the input's gradient, and the weights' gradients by name."""
    layer.zero_grad()
    hidden = hidden.clone().requires_grad_()
    output = run(hidden)
    (output * upstream).sum().backward()
    assert hidden.grad is not None
    blank = {name: torch.zeros_like(weight) for name, weight in layer.named_parameters()}
    weights = {name: weight.grad.clone() for name, weight in layer.named_parameters() if weight.grad is not None}
    return output.detach(), hidden.grad, blank | weights


def _error(found: Tensor, wanted: Tensor, scale: Tensor) -> float:
    return float((found - wanted).abs().max() / scale.abs().max()) if found.numel() else 0.0


def measure_memory(ranks: int, rank: int, tokens: int) -> dict[str, Any]:
    """Peak bytes of what the layer and its backward pass make, beyond weights, inputs and weight gradients."""
    from torch.distributed._tools.mem_tracker import MemTracker

    layer, hidden, upstream = _setting(tokens)
    case = Case("memory", (tokens,))
    held = _held(case, ranks, rank)
    shard, upstream = hidden[held].requires_grad_(), upstream[held]
    run = _split(layer, case, ranks, rank) if ranks > 1 else _unsplit(layer, case.lengths)
    for weight in layer.parameters():
        weight.grad = torch.zeros_like(weight)
    tracker = MemTracker()
    tracker.track_external(layer, shard, upstream, *(weight.grad for weight in layer.parameters()))
    with tracker:
        before = _total(tracker, "current")
        (run(shard) * upstream).sum().backward()
    peak = torch.tensor(float(_total(tracker, "peak") - before))
    if ranks > 1:
        dist.all_reduce(peak, op=dist.ReduceOp.MAX)
    return {"case": "memory", "ranks": ranks, "tokens": tokens, "peak_bytes": int(peak)}


def _total(tracker: Any, kind: str) -> int:
    return int(sum(figures["Total"] for figures in tracker.get_tracker_snapshot(kind).values()))


def work(rank: int, options: argparse.Namespace) -> None:
    """One rank's process; rank 0 prints."""
    join(rank, options.ranks, options.meeting)
    if options.memory:
        lines = [measure_memory(options.ranks, rank, options.tokens)]
    else:
        lines = [compare(case, options.ranks, rank) for case in cases(options.ranks, options.scale)]
    if rank == 0:
        for line in lines:
            print(json.dumps(line), flush=True)
    dist.destroy_process_group()


def main() -> None:
    """Run one world, or be one rank of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--scale", type=int, default=1, help="multiplies the sequences' lengths")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--tokens", type=int, default=4096, help="for --memory")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--meeting")
    options = parser.parse_args()
    if options.rank is not None:
        return work(options.rank, options)
    more = ["--scale", str(options.scale), "--tokens", str(options.tokens), *(["--memory"] if options.memory else [])]
    for line in run_world(__file__, *more, ranks=options.ranks):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
