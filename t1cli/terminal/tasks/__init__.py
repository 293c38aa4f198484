"""IN: a directory of tasks, or a seed. OUT: Task objects, generated tasks, and what vetting them showed."""
