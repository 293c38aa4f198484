"""Replay through Megatron-core's own RouterReplay, for a trainer of your own: every local router gets its layer's rows.

Under slime nothing here runs: slime replays by itself, with the rows that t1 hands it.

Megatron keeps one RouterReplay per MoE router in a global list, in the order of construction; which layer each belongs
to is the router's to say. Its targets also pile up in a list for recomputed passes, which is emptied here after each
step. A fused top-k does not ask it at all, and token dropping or a load-balancing loss lets tokens that carry no
loss act on those that do: both are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from t1cli.errors import T1Error
from t1cli.terminal.trajectory.routing import WrongRouting

if TYPE_CHECKING:
    from torch import Tensor


class MegatronReplay:
    """The routers of this rank's model chunks, and replay through them."""

    def __init__(self, chunks: Sequence[Any]) -> None:
        """Raises T1Error when a router would not replay, or when replaying would not be what the sampler did."""
        routers = [module for chunk in chunks for module in chunk.modules() if hasattr(module, "router_replay")]
        self._routers = sorted(routers, key=lambda router: int(router.layer_number))
        for router in self._routers:
            _require_replayable(router)

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers of the local routers, from 0."""
        return tuple(int(router.layer_number) - 1 for router in self._routers)

    @contextmanager
    def forward(self, rows: Tensor) -> Iterator[None]:
        """One micro-batch's forward pass on rows (H, L, K) of all the model's layers. Raises WrongRouting."""
        from megatron.core.transformer.moe.router_replay import RouterReplayAction

        if self._routers and rows.shape[1] <= max(self.layers):
            raise WrongRouting(f"routing of {rows.shape[1]} layers, this rank has layer {max(self.layers)}")
        for layer, router in zip(self.layers, self._routers, strict=True):
            router.router_replay.set_target_indices(rows[:, layer].long().contiguous())
        with self._action(RouterReplayAction.REPLAY_FORWARD):
            yield

    @contextmanager
    def backward(self) -> Iterator[None]:
        """Passes that are recomputed inside the block replay the rows of their forward pass, in its order."""
        from megatron.core.transformer.moe.router_replay import RouterReplayAction

        with self._action(RouterReplayAction.REPLAY_BACKWARD):
            yield

    def forget(self) -> None:
        """Drop every row; call it after each step."""
        for router in self._routers:
            router.router_replay.clear_indices()

    @contextmanager
    def _action(self, action: Any) -> Iterator[None]:
        for router in self._routers:
            router.router_replay.set_router_replay_action(action)
        try:
            yield
        finally:
            for router in self._routers:
                router.router_replay.clear_router_replay_action()


def _require_replayable(router: Any) -> None:
    config = router.config
    problems = {
        "moe_enable_routing_replay is off": router.router_replay is None,
        "moe_router_fusion selects experts without asking": bool(getattr(config, "moe_router_fusion", False)),
        "moe_expert_capacity_factor drops tokens": getattr(config, "moe_expert_capacity_factor", None) is not None,
        "moe_aux_loss_coeff acts on tokens without loss": _any_nonzero(getattr(config, "moe_aux_loss_coeff", 0)),
    }
    found = [problem for problem, there in problems.items() if there]
    if found:
        raise T1Error(f"router of layer {router.layer_number} cannot replay: {'; '.join(found)}")


def _any_nonzero(value: Any) -> bool:
    return any(value) if isinstance(value, (list, tuple)) else bool(value)
