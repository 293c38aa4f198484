"""One actor per node, pinned there: work that belongs to a node's own network and disks stays on it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from t1cli.errors import CouldNotAsk


class NodeActors:
    """Objects of one class, one on each of the named nodes. Their methods may be coroutines and run side by side."""

    def __init__(self, handles: dict[str, Any]) -> None:
        self._handles = handles
        self.lost: set[str] = set()
        """Addresses whose actor has died; whoever plays on may make new ones."""

    @classmethod
    def spawn(cls, target: str, addresses: Sequence[str], *arguments: object, concurrency: int) -> NodeActors:
        """Start `module:Class(*arguments)` on every address. Raises CouldNotAsk for one that is no living node."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = {
            node["NodeManagerAddress"]: node["NodeID"]
            for node in ray.nodes()  # type: ignore[no-untyped-call]
            if node["Alive"]
        }
        missing = [address for address in addresses if address not in nodes]
        if missing:
            raise CouldNotAsk(f"no living Ray node at {', '.join(missing)}", hint="`ray status` on the head")
        remote: Any = ray.remote(_AsyncHost)
        handles = {
            address: remote.options(
                num_cpus=0,
                max_restarts=0,
                max_concurrency=concurrency,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=nodes[address], soft=False),
            ).remote(target, arguments)
            for address in addresses
        }
        return cls(handles)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Nodes with a living actor, as far as is known; all of them when none is left."""
        return tuple(address for address in self._handles if address not in self.lost) or tuple(self._handles)

    async def call(self, address: str, method: str, *arguments: object) -> Any:
        """Run a method there. Raises ConnectionError when the actor's process or node is gone."""
        import ray

        try:
            return await self._handles[address].call.remote(method, *arguments)
        except ray.exceptions.RayTaskError as failure:
            raise failure.as_instanceof_cause() from None  # type: ignore[no-untyped-call]
        except ray.exceptions.RayError as failure:
            if isinstance(failure, ray.exceptions.RayActorError):
                self.lost.add(address)
            raise ConnectionError(f"the worker on {address} is gone: {type(failure).__name__}") from failure

    def close(self) -> None:
        """End every actor; safe to call twice."""
        import ray

        for handle in self._handles.values():
            ray.kill(handle)
        self._handles = {}


class _AsyncHost:
    """What Ray runs: it imports the class in its own process."""

    def __init__(self, target: str, arguments: tuple[object, ...]) -> None:
        module, _, name = target.partition(":")
        self._object = getattr(importlib.import_module(module), name)(*arguments)

    async def call(self, method: str, *arguments: object) -> object:
        """Pass a call on."""
        return await getattr(self._object, method)(*arguments)
