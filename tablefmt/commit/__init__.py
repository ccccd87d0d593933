"""Commit of one log entry: the pure protocol, its outcomes, and the driver that runs it."""
