"""Sandboxes that are Harbor environments. IN: a task. OUT: a sandbox, kept by a worker process that has Harbor.

Harbor needs Python 3.12 or newer and a gigabyte of packages, so it is never imported where trials run: `worker` owns
the environments, and `provider` speaks to it over a socket that nobody else has.
"""
