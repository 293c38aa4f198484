"""A double of slime for contract tests; none of its code is slime's."""
