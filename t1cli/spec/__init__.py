"""IN: YAML files and `--set` overrides. OUT: an ExperimentSpec with the origin of every value.

Reads files and nothing else; knows nothing of slime, Ray or torch.
"""
