"""What metrics mean, what frameworks call them, and how the names of a run are bound to the canonical ones."""
