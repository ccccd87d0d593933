"""Benchmarks beside peers; see README.md here."""
