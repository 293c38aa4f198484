"""The first spec of a campaign, from a few answers.

IN: a model, GPUs, where sandboxes run, a directory of tasks. OUT: the text of an experiment file whose layout comes
from the memory model's search. It plans what it proposes, probes nothing but this machine's size, and starts nothing.
"""
