"""The quality audit of a pool: what a machine can see of each task, what a judge says, and the best of them.

Enters: task directories, a rubric (`presets/audit/`), optionally a judge. Leaves: an audit per task and a selection.
Nothing is executed: whether a task's solution passes its tests is the answer of `t1 tasks check`.
"""
