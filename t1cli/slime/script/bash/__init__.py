"""A small evaluator of bash: enough for launch scripts, bounded, and without any effect outside itself.

Statements are found by tree-sitter-bash; words are expanded here. Commands are never run: a handful of pure ones
(`seq`, `printf`, `dirname`, …) are computed, every other one has no effect and an unknown output.
"""
