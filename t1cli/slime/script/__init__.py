"""IN: a slime launch script. OUT: an experiment file, or the lines that need help; and back. Executes nothing."""
