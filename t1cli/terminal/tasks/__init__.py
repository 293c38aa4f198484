"""IN: a directory of tasks. OUT: Task objects. Knows layouts; runs nothing."""
