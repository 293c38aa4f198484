"""What the trainer's own scores would choose, taken beside each replayed row in slime's selection.

slime's replay never looks at the live choice. Its selection is wrapped between the hook before the log-prob pass and
the hook on the rollout's data, so that training passes, which replay the same rows again, are neither slowed down nor
counted twice.

Shapes: H tokens that the rank holds of a micro-batch, K experts per token.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from t1cli.plugin.patches.shape import REPLAYED_TOPK, mismatch

if TYPE_CHECKING:
    from torch import Tensor

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


def taken() -> Count | None:
    """The open count, which ends here; None where nothing was counted."""
    return _counts.pop() if _counts else None


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
