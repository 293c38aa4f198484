"""A number with its noun."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 refusal`, `2 refusals`; the plural is made by an s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
