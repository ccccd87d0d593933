"""Streams: what a query of Spark asks of its source and its sink, decided without Spark."""
