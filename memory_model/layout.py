"""How a model is cut over GPUs: Megatron's parallel axes, the layers of every stage, and why a cut is impossible."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from memory_model.architecture import Architecture
from memory_model.cached_hash import CachedHash

VOCAB_MULTIPLE = 128
"""Megatron's default `--make-vocab-size-divisible-by`; the padding unit is this times tp."""


@dataclass(frozen=True)
class Layout(CachedHash):
    """Megatron's axes. `world` counts the GPUs of one role; dp and edp follow from it.

    Dense:   world = tp x pp x cp x dp.      Experts: world = pp x ep x etp x edp.
    """

    __hash__ = CachedHash.__hash__

    world: int
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 1
    vpp: int = 1
    sp: bool = True
    """Sequence parallelism; has no effect at tp 1."""
    first_stage_layers: int | None = None
    last_stage_layers: int | None = None
    chunk_layers: tuple[int, ...] | None = None
    """Layers of every virtual chunk in model order (pp x vpp numbers), for a layout that is not even."""
    vocab_multiple: int = VOCAB_MULTIPLE

    @property
    def dp(self) -> int:
        """Data-parallel copies of the dense weights, without context parallelism."""
        return self.world // (self.tp * self.pp * self.cp)

    @property
    def dense_shards(self) -> int:
        """Ranks that share one dense optimizer state: dp x cp (Megatron's distributed optimizer)."""
        return self.dp * self.cp

    @property
    def edp(self) -> int:
        """Ranks that hold the same routed experts and share their optimizer state."""
        return self.world // (self.pp * self.ep * self.etp)

    @property
    def sequence_shards(self) -> int:
        """How many TP ranks share the sequence between tensor-parallel regions."""
        return self.tp if self.sp else 1

    def padded_vocab(self, vocab_size: int) -> int:
        """Vocabulary after Megatron's padding to a multiple of `vocab_multiple` x tp."""
        unit = self.vocab_multiple * self.tp
        return -(-vocab_size // unit) * unit


@dataclass(frozen=True)
class Stage(CachedHash):
    """What one pipeline stage holds: layer ranges of its chunks in model order, and the ends of the model."""

    __hash__ = CachedHash.__hash__

    index: int
    layers: tuple[int, ...]
    has_embedding: bool
    has_head: bool
    chunks: tuple[tuple[int, ...], ...]


def why_impossible(arch: Architecture, layout: Layout) -> tuple[str, ...]:
    """Every reason why Megatron cannot build this layout, as arithmetic; empty when it can."""
    sizes = {key: getattr(layout, key) for key in ("world", "tp", "pp", "cp", "ep", "etp", "vpp")}
    bad = [f"{key} = {value} is not a positive number" for key, value in sizes.items() if value < 1]
    if bad:
        return tuple(bad)
    checks = (_dense_grid, _expert_grid, _heads, _experts, _pipeline)
    return tuple(reason for check in checks for reason in check(arch, layout))


def _dense_grid(arch: Architecture, layout: Layout) -> list[str]:
    block = layout.tp * layout.pp * layout.cp
    if layout.world % block == 0:
        return []
    return [f"tp {layout.tp} x pp {layout.pp} x cp {layout.cp} = {block} does not divide {layout.world} training GPUs"]


def _expert_grid(arch: Architecture, layout: Layout) -> list[str]:
    if not arch.is_moe:
        return [f"ep {layout.ep}: the model has no routed experts"] if layout.ep > 1 else []
    block = layout.pp * layout.ep * layout.etp
    if layout.world % block == 0:
        return []
    per_stage = layout.world // layout.pp
    largest = per_stage // layout.etp
    dense = f"tp {layout.tp} x cp {layout.cp} x dp {layout.dp} = {layout.tp * layout.cp * layout.dp}"
    return [
        f"world = pp x ep x etp x edp: pp {layout.pp} x ep {layout.ep} x etp {layout.etp} = {block} does not divide "
        f"{layout.world} GPUs; a stage has {per_stage} GPUs ({dense}), so ep x etp must divide {per_stage}: "
        f"ep <= {largest} at etp {layout.etp}, that is {-(-arch.num_experts // max(1, largest))} of "
        f"{arch.num_experts} experts on every GPU, at any number of nodes with this dp"
    ]


def _heads(arch: Architecture, layout: Layout) -> list[str]:
    reasons = []
    if arch.num_attention_heads % layout.tp:
        reasons.append(f"tp {layout.tp} does not divide {arch.num_attention_heads} attention heads")
    groups = arch.num_key_value_heads
    if not arch.mla and groups % layout.tp and layout.tp % groups:
        reasons.append(f"tp {layout.tp} and {groups} key/value groups: neither divides the other")
    if arch.hidden_size % layout.tp:
        reasons.append(f"tp {layout.tp} does not divide the hidden size {arch.hidden_size}")
    if arch.intermediate_size % layout.tp:
        reasons.append(f"tp {layout.tp} does not divide the feed-forward width {arch.intermediate_size}")
    if arch.shared_expert_intermediate_size % layout.tp:
        reasons.append(f"tp {layout.tp} does not divide the shared expert's {arch.shared_expert_intermediate_size}")
    return reasons


def _experts(arch: Architecture, layout: Layout) -> list[str]:
    if not arch.is_moe:
        return []
    reasons = []
    if arch.num_experts % layout.ep:
        reasons.append(f"ep {layout.ep} does not divide {arch.num_experts} experts")
    if arch.moe_intermediate_size % layout.etp:
        reasons.append(f"etp {layout.etp} does not divide the expert width {arch.moe_intermediate_size}")
    if layout.tp > 1 and not layout.sp:
        reasons.append(f"MoE at tp {layout.tp} needs sequence parallelism (Megatron refuses it off)")
    return reasons


def _pipeline(arch: Architecture, layout: Layout) -> list[str]:
    if layout.vpp > 1 and layout.pp == 1:
        return [f"vpp {layout.vpp} needs pp above 1"]
    chunks, total = layout.pp * layout.vpp, arch.num_hidden_layers
    if layout.chunk_layers is not None:
        if len(layout.chunk_layers) != chunks or sum(layout.chunk_layers) != total:
            return [f"chunk_layers {layout.chunk_layers} must be {chunks} numbers that sum to {total} layers"]
        return []
    fixed = [n for n in (layout.first_stage_layers, layout.last_stage_layers) if n is not None]
    middle, stages = total - sum(fixed), layout.pp - len(fixed)
    if stages < 0 or middle < 0 or (stages == 0 and middle != 0):
        return [f"first and last stage take {sum(fixed)} of {total} layers; {stages} other stages take {middle}"]
    reasons = []
    if stages and middle % (stages * layout.vpp):
        reasons.append(f"{middle} layers do not split over {stages} stages x vpp {layout.vpp}")
    if any(n % layout.vpp for n in fixed):
        reasons.append(f"first and last stage layers {fixed} do not split over vpp {layout.vpp}")
    if stages and middle == 0:
        reasons.append(f"{stages} stages would have no layers")
    return reasons


@lru_cache(maxsize=4096)
def stages(num_layers: int, layout: Layout) -> tuple[Stage, ...]:
    """The pipeline stages of a possible layout, first to last."""
    counts = layout.chunk_layers or _chunk_counts(num_layers, layout)
    starts = [sum(counts[:i]) for i in range(len(counts))]
    ranges = [tuple(range(start, start + count)) for start, count in zip(starts, counts, strict=True)]
    built = []
    for rank in range(layout.pp):
        chunks = tuple(ranges[rank :: layout.pp])
        flat = tuple(layer for chunk in chunks for layer in chunk)
        built.append(Stage(rank, flat, rank == 0, rank == layout.pp - 1, chunks))
    return tuple(built)


def _chunk_counts(num_layers: int, layout: Layout) -> tuple[int, ...]:
    first, last = layout.first_stage_layers, layout.last_stage_layers
    fixed = (first or 0) + (last or 0)
    free = layout.pp - (first is not None) - (last is not None)
    even = (num_layers - fixed) // free if free else 0
    per_stage = [even] * layout.pp
    if first is not None:
        per_stage[0] = first
    if last is not None:
        per_stage[-1] = last
    return tuple(per_stage[i % layout.pp] // layout.vpp for i in range(layout.pp * layout.vpp))
