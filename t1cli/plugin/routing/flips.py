"""Flipped experts under slime: in the pass that replays the sampler's rows, the trainer's own choice is taken too.

slime's replay never looks at what the live scores would choose. Its selection is wrapped between the hook before the
log-prob pass and the hook on the rollout's data, so that training passes, which replay the same rows again, are neither
slowed down nor counted twice. Rows of padding and of a sequence's last token are no sampler's and stay out.

Shapes: H tokens that the rank holds of a micro-batch, E experts, K experts per token.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from t1cli.launch.metric_names import ROUTED_TOKENS
from t1cli.plugin.parallel.order import Layout, Rank, local_spans
from t1cli.plugin.parallel.shard import take
from t1cli.plugin.patches.shape import REPLAYED_TOPK, mismatch
from t1cli.terminal.trajectory.mismatch import RoutingSums

if TYPE_CHECKING:
    from torch import Tensor

_ROWS: Final = "train/routing_flipped_rows"
logger = logging.getLogger(__name__)


@dataclass
class Seen:
    """What the local routers chose in one micro-batch, layers summed."""

    missing: Tensor
    """(H,) int32: experts of the sampler that the live scores would not choose."""
    flipped: Tensor
    """(H,) int32: layers whose set differs."""
    layers: int
    top_k: int


@dataclass
class Count:
    """One log-prob pass: micro-batches in the order of their passes."""

    seen: dict[int, Seen] = field(default_factory=dict)

    def add(self, micro_batch: int, live: Tensor, replayed: Tensor) -> None:
        """One layer's choices (H, K), compared as sets."""
        absent = ~(replayed.long()[:, :, None] == live.long()[:, None, :]).any(-1)
        missing = absent.sum(-1).int()
        former = self.seen.get(micro_batch)
        if former is None:
            self.seen[micro_batch] = Seen(missing, (missing > 0).int(), 1, replayed.shape[1])
            return
        former.missing += missing
        former.flipped += (missing > 0).int()
        former.layers += 1


_counts: list[Count] = []
"""The open count of this process, if there is one."""


def start(args: Any, store_prefix: str) -> None:
    """Count from here on, when the pass that begins is the actor's own."""
    from slime.utils import routing_replay  # type: ignore[import-not-found]

    _counts.clear()
    # Under --allgather-cp tokens are cut otherwise than `order` says.
    if not store_prefix and not getattr(args, "allgather_cp", False) and _counts_in(routing_replay):
        _counts.append(Count())


_MARK: Final = "_t1_counts_flips"


def _counts_in(module: Any) -> bool:
    """Whether slime's selection is wrapped, which the first call does; said once where its shape is another."""
    if not hasattr(module, _MARK):
        problem = mismatch(module, REPLAYED_TOPK)
        if problem:
            logger.warning("flipped experts are not measured: %s", problem)
        else:
            module.get_routing_replay_compute_topk = counting(module, module.get_routing_replay_compute_topk)
        setattr(module, _MARK, not problem)
    return bool(getattr(module, _MARK))


def counting(module: Any, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """slime's `get_routing_replay_compute_topk` with the live choice taken beside each replayed one."""

    def get_routing_replay_compute_topk(old_compute_topk: Any) -> Any:
        select = make(old_compute_topk)

        def compute_topk(scores: Any, topk: int, num_groups: Any = None, group_topk: Any = None) -> Any:
            chosen = select(scores, topk, num_groups=num_groups, group_topk=group_topk)
            if _counts and _replays():
                _, live = old_compute_topk(scores, topk, num_groups=num_groups, group_topk=group_topk)
                # The row was taken, and the index moved on to the next micro-batch.
                _counts[-1].add(module.ROUTING_REPLAY.forward_index - 1, live, chosen[1])
            return chosen

        return compute_topk

    return get_routing_replay_compute_topk


def _replays() -> bool:
    on = os.environ.get("ENABLE_ROUTING_REPLAY", "0") == "1"
    return on and os.environ.get("ROUTING_REPLAY_STAGE") == "replay_forward"


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

    if not _counts:
        return
    layout, rank, stages = _place(args)
    totals = over_ranks(local_totals(_counts.pop(), rollout_data, layout, rank))
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
