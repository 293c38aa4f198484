"""Every way a campaign has died or silently gone wrong, and who catches it.

IN: the rows under `rows/`, and the code itself: checks, findings, refusals, rules, diagnoses and log signatures say
which rows they catch. OUT: `t1 explain`, and docs/reference/failure-modes.md. Nobody outside cli and ui imports it, and
it imports no heavy library; a row never says by hand who catches it.
"""
