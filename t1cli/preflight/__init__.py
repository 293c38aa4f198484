"""IN: a Plan and its spec. OUT: a PreflightReport. Reads the world; changes nothing but its own probes' leftovers."""
