"""t1: from a YAML file to a healthy terminal-agent RL campaign on slime."""

__version__ = "0.1.0"
