"""What slime has no option for: small patches, each guarded by the shape of the code that it changes.

A patch that does not recognise its target changes nothing and says so; `SHAPES` in `shape` records what each expects.
"""
