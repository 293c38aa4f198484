"""What t1 uses of Harbor 0.26.0's public API, and nothing else, for a Python that Harbor itself does not support."""
