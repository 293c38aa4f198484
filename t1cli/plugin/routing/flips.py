"""Flipped experts and routed tokens under slime, of all ranks, over the rows that the sampler chose.

Rows of padding and of a sequence's last token are no sampler's and stay out.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from t1cli.plugin.parallel.order import Layout, Rank, local_spans
from t1cli.plugin.parallel.shard import take
from t1cli.plugin.routing.live_choice import Count, Seen, taken
from t1cli.run.metric_names import ROUTED_TOKENS
from t1cli.terminal.trajectory.mismatch import RoutingSums

if TYPE_CHECKING:
    from torch import Tensor

_ROWS: Final = "train/routing_flipped_rows"
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Totals:
    """What is summed over ranks."""

    flips: RoutingSums = field(default_factory=RoutingSums)
    routed: int = 0
    """Loss tokens of micro-batches whose rows were replayed."""
    trained: int = 0

    def to_metrics(self, *, whole: bool) -> dict[str, float]:
        """Shares under `train/`; `whole`: each rank has every layer, so that positions can be told."""
        shares = {name: value for name, value in self.flips.to_metrics().items() if whole or name != _ROWS}
        return shares | ({ROUTED_TOKENS: self.routed / self.trained} if self.trained else {})


def log_flips(args: Any, rollout_id: int, rollout_data: dict[str, Any]) -> None:
    """Log one rollout's flips and routed tokens, and end the count; every rank of the actor must call it."""
    from t1cli.plugin.value_fit import log_step, logs_here, steps_per_rollout

    count = taken()
    if count is None:
        return
    layout, rank, stages = _place(args)
    totals = over_ranks(local_totals(count, rollout_data, layout, rank))
    metrics = totals.to_metrics(whole=stages == 1)
    if metrics and logs_here():
        log_step(args, rollout_id * steps_per_rollout(args), metrics)


def local_totals(count: Count, data: dict[str, Any], layout: Layout, rank: Rank) -> Totals:
    """This rank's share; nothing from a rank without routers, or whose rows are not its tokens'."""
    if not count.seen:
        return Totals()
    flips, routed, trained = RoutingSums(), 0, 0
    for number, indices in enumerate(data["micro_batch_indices"]):
        loss = sum(int(data["loss_masks"][i].sum()) for i in indices)
        trained += loss
        if (seen := count.seen.get(number)) is not None:
            real = real_rows([data["total_lengths"][i] for i in indices], layout, rank)
            if len(real) != len(seen.missing):
                # Beside the wrong tokens a share would mean nothing, and a measurement stops no run.
                logger.warning("routing of %d tokens was replayed for %d", len(seen.missing), len(real))
                return Totals()
            routed += loss
            flips = flips + _flips(seen, real)
    return Totals(flips, routed, trained)


def real_rows(lengths: list[int], layout: Layout, rank: Rank) -> Tensor:
    """(H,) bool: the sampler's rows among those that a rank replays; a sequence's last token has none."""
    import torch

    rows = torch.cat([torch.arange(length) < length - 1 for length in lengths])
    return take(rows, local_spans(lengths, layout, rank), torch.zeros(1, dtype=torch.bool))


def _flips(seen: Seen, real: Tensor) -> RoutingSums:
    missing, flipped = seen.missing.cpu()[real], seen.flipped.cpu()[real]
    cells = len(missing) * seen.layers
    return RoutingSums(
        positions=len(missing),
        flipped_rows=int((flipped > 0).sum()),
        cells=cells,
        flipped_sets=int(flipped.sum()),
        replaced_experts=int(missing.sum()),
        chosen_experts=cells * seen.top_k,
    )


def over_ranks(totals: Totals) -> Totals:
    """The sums of all ranks of the actor, through slime's Gloo group of all of them."""
    import torch
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return totals
    from slime.utils.distributed_utils import get_gloo_group  # type: ignore[import-not-found]

    names = [one.name for one in fields(RoutingSums)]
    numbers = [getattr(totals.flips, name) for name in names] + [totals.routed, totals.trained]
    together = torch.tensor(numbers, dtype=torch.int64)
    dist.all_reduce(together, group=get_gloo_group())
    *flips, routed, trained = (int(number) for number in together)
    return Totals(RoutingSums(*flips), routed, trained)


def _place(args: Any) -> tuple[Layout, Rank, int]:
    """How this rank's group shares micro-batches, its place in it, and the pipeline stages."""
    from t1cli.plugin.value_fit import parallel_state

    mpu = parallel_state()
    if mpu is None:
        return Layout(pad_multiple=args.data_pad_size_multiplier), Rank(), 1
    layout = Layout(
        mpu.get_context_parallel_world_size(),
        mpu.get_tensor_model_parallel_world_size(),
        bool(args.sequence_parallel),
        args.data_pad_size_multiplier,
    )
    rank = Rank(mpu.get_context_parallel_rank(), mpu.get_tensor_model_parallel_rank())
    return layout, rank, mpu.get_pipeline_model_parallel_world_size()
