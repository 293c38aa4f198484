"""Environment of torch processes that share a small machine."""

from __future__ import annotations


def cpu_environment(*, threads: int) -> dict[str, str]:
    """Thread counts, and a heap that keeps freed pages.

    Expert training allocates and frees tensors of ever-changing sizes; glibc's trimming then gives pages back to the
    kernel and faults them in again at every step.
    """
    return {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        # Idle threads must sleep: spinning ones take the core of the other process.
        "OMP_WAIT_POLICY": "PASSIVE",
        "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
        "MALLOC_TOP_PAD_": str(64 << 20),
        "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
        "MALLOC_ARENA_MAX": "2",
    }
