"""All knowledge of slime. IN: a spec, or a launch script. OUT: arguments, role file, environment and job, or a spec.

Imports spec and nothing of slime, Ray or torch; `plan` knows `slime.arguments` and `slime.compile`, which stay light.
"""
