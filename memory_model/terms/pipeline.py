"""How many micro-batches a stage keeps at its worst moment."""

from __future__ import annotations

from memory_model.layout import Layout, Stage


def chunks_in_flight(layout: Layout, stage: Stage, micro_batches: int) -> float:
    """Forward passes of one model chunk whose backward has not run yet, including the running one.

    1F1B: min(m, pp - i). Interleaved: warm-up of 2 (pp - i - 1) + (vpp - 1) pp chunk passes, and one more
    (megatron/core/pipeline_parallel/schedules.py get_pp_rank_microbatches).
    """
    if layout.vpp == 1:
        return float(min(micro_batches, layout.pp - stage.index))
    warmup = 2 * (layout.pp - stage.index - 1) + (layout.vpp - 1) * layout.pp
    return float(min(micro_batches * layout.vpp, warmup + 1))


def micro_batches_in_flight(layout: Layout, stage: Stage, micro_batches: int) -> float:
    """The same in units of the whole stage: chunk passes over chunks per stage."""
    return chunks_in_flight(layout, stage, micro_batches) / layout.vpp
