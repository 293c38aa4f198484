"""IN: a verifier's output. OUT: what the trial is worth, and which source said so."""
