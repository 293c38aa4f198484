"""Routing replay in a trainer: the sampler's experts are looked up, their gates come from the live scores.

IN: routing rows that were stitched as their tokens were. OUT: a forward pass through the experts that sampled.
"""
