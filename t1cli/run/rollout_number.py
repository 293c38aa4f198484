"""Rollouts as people count them."""

from __future__ import annotations


def rollout_number(rollout_id: int) -> int:
    """From 1, where ids in files, metrics and JSON begin at 0."""
    return rollout_id + 1
