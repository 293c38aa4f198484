"""Campaigns on slime: compiled, submitted to Ray, followed, stopped and evaluated as jobs."""
