"""`hardware`: what one node has, and how many nodes there are."""

from __future__ import annotations

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from t1cli.spec.block import Block


class HardwareSpec(Block):
    """What one node has, and how many nodes there are. All sizes in GiB."""

    gpu: str
    """GPU kind, for example `H200`; `none` on a machine without one."""
    usable_gib: NonNegativeFloat
    """GPU memory that a process can use, as the driver reports it."""
    num_nodes: PositiveInt
    """Nodes in the cluster."""
    gpus_per_node: NonNegativeInt
    """GPUs per node."""
    host_ram_gib: PositiveFloat
    """Host memory per node."""
    cpu_cores: PositiveInt
    """CPU cores per node."""
    disk_gib: PositiveFloat
    """Free space where checkpoints go, over the whole cluster when the path is shared."""
    price_per_gpu_hour: NonNegativeFloat | None = None
    """Money per GPU-hour, in any currency; null leaves money out of the plan."""
    source: str = ""
    """Where these figures come from."""
