"""`topology`: which GPUs train, which generate, and how the model is cut."""

from __future__ import annotations

from pydantic import NonNegativeInt, PositiveInt

from t1cli.spec.block import Block


class TopologySpec(Block):
    """Which GPUs train, which generate, and how the model is cut."""

    train_nodes: PositiveInt
    """Nodes for the trainers; actor and critic share them."""
    train_gpus_per_node: NonNegativeInt | None = None
    """Training GPUs on each of those nodes; null means all of them."""
    rollout_gpus: NonNegativeInt
    """GPUs for the inference engines; equal to the training GPUs when colocated."""
    gpus_per_engine: PositiveInt
    """GPUs of one inference engine (its tensor times pipeline parallel size)."""
    colocated: bool = False
    """Whether engines and trainers share the same GPUs in turn."""
    tp: PositiveInt = 1
    """Tensor-parallel size; sequence parallelism is on whenever it is above 1."""
    sequence_parallel: bool | None = None
    """Shard activations between tensor-parallel layers; null means: whenever tp is above 1."""
    pp: PositiveInt = 1
    """Pipeline-parallel size."""
    vpp: PositiveInt = 1
    """Virtual pipeline chunks per stage (interleaved schedule); 1 means plain 1F1B."""
    cp: PositiveInt = 1
    """Context-parallel size."""
    ep: PositiveInt = 1
    """Expert-parallel size."""
    etp: PositiveInt = 1
    """Expert tensor-parallel size."""
    first_stage_layers: PositiveInt | None = None
    """Layers of the first pipeline stage when it is uneven; null for an even split."""
    last_stage_layers: PositiveInt | None = None
    """Layers of the last pipeline stage when it is uneven; null for an even split."""
