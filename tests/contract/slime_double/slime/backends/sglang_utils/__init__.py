"""A double of slime for contract tests."""
