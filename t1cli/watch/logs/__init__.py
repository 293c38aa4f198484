"""Logs: signatures, the streaming scanner, and what a run's logs come to."""
