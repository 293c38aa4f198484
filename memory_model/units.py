"""Byte units: everything inside is bytes, everything that leaves is GiB."""

KIB = 1024
MIB = 1024**2
GIB = 1024**3
GB = 10**9


def gib(num_bytes: float) -> float:
    """Bytes as GiB."""
    return num_bytes / GIB
