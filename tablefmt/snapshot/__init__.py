"""State of a table at one version: replay, live files as Arrow columns, pruning, time."""
