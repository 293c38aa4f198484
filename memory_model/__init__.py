"""Per-GPU memory of Megatron RL training. Standard library only; knows nothing of YAML, slime or t1cli."""
