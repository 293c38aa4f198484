"""IN: tasks, a sandbox provider, an engine. OUT: finished trials with outcomes, rows and metrics."""
