"""The terminal-agent world: tasks, sandboxes, agent loops, trajectories, rewards, trials. Free of slime and torch."""
