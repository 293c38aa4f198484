"""What a rank holds of a micro-batch, and layers that work on such a shard."""
