"""The few numbers that physics does not fix; a calibration overlay replaces these and nothing else."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Coefficients:
    """GiB unless the name says otherwise; every value names the reading it comes from."""

    cuda_context_gib: float = 0.5
    """A bare CUDA context on Hopper."""
    library_handles_gib: float = 0.5
    """cuBLAS, cuDNN and loaded kernels."""
    communicator_gib: float = 0.6
    """One NCCL communicator that is really used (slime #1951 and #1767: 3.8 to 4.2 outside PyTorch; SGLang #30908)."""
    reserved_over_allocated: float = 1.038
    """Caching allocator: median of 344 rank readings, SimuMax B200 summary (range 1.007 to 1.093)."""
    natural_imbalance: float = 1.25
    """Expert rows on the busiest rank over the mean when nothing forces balance.

    Fitted on 36 readings of 19 test and pre-training models in `cases/` (Mixtral 8x7B and 8x22B, Moonlight, Megatron's
    MoE tests); rows under forced balance or padding to capacity do not see it.
    """
    memory_saver_margin_gib: float = 1.0
    """torch_memory_saver keeps this much free (log in slime #1767)."""
    other_role_residual_gib: float = 3.24
    """An offloaded role's process on the same GPU (another process's 3.24 GiB in slime #1951)."""
    activation_scale: float = 1.0
    """Multiplies every activation term; 1 unless a user's own readings say otherwise."""
    deltanet_scale: float = 1.0
    """Multiplies GatedDeltaNet's activation terms only."""
    fixed_extra_gib: float = 0.0
    """A constant of one site's software stack, only ever set by calibration."""


DEFAULT = Coefficients()
