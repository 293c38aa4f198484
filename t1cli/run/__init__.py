"""A run on disk: its directory, record, events, metrics, locks and saves.

Starts nothing; every room that writes or reads a run goes through here.
"""
