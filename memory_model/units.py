"""Byte units: everything inside is bytes, everything that leaves is GiB."""

MIB = 1024**2
GIB = 1024**3
