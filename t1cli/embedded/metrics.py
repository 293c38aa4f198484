"""What the trainer reports of a step."""

from __future__ import annotations

Metrics = dict[str, float]
"""Metric name to value; nan where a figure is undefined, which metrics.jsonl shows as null."""
