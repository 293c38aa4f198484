"""How many micro-batches a stage keeps at its worst moments, by walking Megatron's schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

Alive = tuple[int, ...]
"""Forward passes kept per model chunk of the stage."""


def kept_at_backward(pp: int, vpp: int, stage: int, micro_batches: int) -> tuple[Alive, ...]:
    """What is kept whenever a backward pass begins; distinct vectors that no other exceeds everywhere."""
    return _moments(pp, vpp, stage, micro_batches)[0]


def kept_at_loss(pp: int, vpp: int, stage: int, micro_batches: int) -> tuple[Alive, ...]:
    """What is kept whenever the last chunk of the stage has just run forward."""
    return _moments(pp, vpp, stage, micro_batches)[1]


def heaviest(moments: Sequence[Alive], chunk_bytes: Sequence[float]) -> float:
    """The largest sum of kept bytes over the given moments."""
    if len(set(chunk_bytes)) == 1:
        return max(sum(alive) for alive in moments) * chunk_bytes[0]
    return max(sum(count * size for count, size in zip(alive, chunk_bytes, strict=True)) for alive in moments)


@lru_cache(maxsize=8192)
def _moments(pp: int, vpp: int, stage: int, micro_batches: int) -> tuple[tuple[Alive, ...], tuple[Alive, ...]]:
    """1F1B keeps min(m, pp - i). Interleaved runs 2 (pp - i - 1) + (vpp - 1) pp chunk passes before the first backward.

    Source: megatron/core/pipeline_parallel/schedules.py (get_pp_rank_microbatches, get_model_chunk_id).
    """
    if vpp == 1:
        only = ((min(micro_batches, pp - stage),),)
        return only, only
    at_backward, at_loss = set(), set()
    for moment, chunk, alive in _walk(pp, vpp, stage, min(micro_batches, 3 * pp)):
        if moment == "backward":
            at_backward.add(alive)
        elif chunk == vpp - 1:
            at_loss.add(alive)
    return _largest(at_backward), _largest(at_loss)


def _walk(pp: int, vpp: int, stage: int, micro_batches: int) -> Iterator[tuple[str, int, Alive]]:
    total = micro_batches * vpp
    warmup = min(total, 2 * (pp - stage - 1) + (vpp - 1) * pp)
    alive = [0] * vpp
    for k in range(total + warmup):
        if k < total:
            chunk = _chunk(k, pp, vpp, micro_batches)
            alive[chunk] += 1
            yield "forward", chunk, tuple(alive)
        if k >= warmup:
            chunk = vpp - 1 - _chunk(k - warmup, pp, vpp, micro_batches)
            yield "backward", chunk, tuple(alive)
            alive[chunk] -= 1


def _chunk(k: int, pp: int, vpp: int, micro_batches: int) -> int:
    """Which chunk the k-th pass runs: groups of pp micro-batches go through all chunks in turn."""
    group, inside = divmod(k, pp * vpp)
    size = min(pp, micro_batches - group * pp)
    return inside // size


def _largest(moments: set[Alive]) -> tuple[Alive, ...]:
    """Moments that no other moment exceeds in every chunk."""
    kept = [
        one
        for one in moments
        if not any(other != one and all(a <= b for a, b in zip(one, other, strict=True)) for other in moments)
    ]
    return tuple(sorted(kept))
