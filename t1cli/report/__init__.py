"""IN: a run directory. OUT: one self-contained HTML page about what happened in it."""
