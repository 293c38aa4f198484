"""IN: an argument list and a slime version. OUT: what slime would make of it, and what is wrong with it."""
