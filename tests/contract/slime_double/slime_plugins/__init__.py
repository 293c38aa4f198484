"""A double of slime's model code, in the shape that the split layers expect."""
