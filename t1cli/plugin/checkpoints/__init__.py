"""IN: role directories. OUT: claimed, sealed and pruned checkpoints; a refusal where two roles would share files."""
