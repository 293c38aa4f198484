"""What slime loads. IN: slime's namespace with our settings. OUT: samples, evaluation data, metrics, kept checkpoints.

Nobody in the control plane imports this room; slime reaches it through the dotted paths of `hooks` alone.
"""
