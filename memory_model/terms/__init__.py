"""One memory term per file: bytes on one GPU, each formula with its source."""
