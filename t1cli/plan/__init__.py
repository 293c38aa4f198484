"""IN: a LoadedSpec. OUT: a Plan: topology, memory, host RAM, disk, schedule, pool demand, findings.

Pure arithmetic: no I/O, no torch, ray, numpy or slime.
"""
