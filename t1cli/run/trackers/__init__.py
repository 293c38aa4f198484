"""Metric stores beside metrics.jsonl, each imported only when a spec asks for it."""
