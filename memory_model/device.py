"""What a GPU offers a process, and what lies outside PyTorch's allocator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """One GPU kind. `usable_gib` is what the driver reports as total to a process."""

    name: str
    usable_gib: float
    gpus_per_node: int = 8
    host_ram_gib: float = 0.0
    cpu_cores: int = 0
    engine_workspace_mib: int = 32
    """Transformer Engine's GEMM workspace per stream: 32 MiB from Hopper on, 4 MiB before (module/base.py)."""


# torch.cuda.mem_get_info totals as printed by torch's own OOM messages and by Megatron's test logs.
A100_80 = Device("A100-80GB", 79.3, engine_workspace_mib=4)
H100_80 = Device("H100-80GB", 79.1)
H200 = Device("H200", 139.8)
H20_96 = Device("H20-96GB", 95.6)
B200 = Device("B200", 178.4)
GB200 = Device("GB200", 184.3)

KNOWN = {device.name: device for device in (A100_80, H100_80, H200, H20_96, B200, GB200)}
