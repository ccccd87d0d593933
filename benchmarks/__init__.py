"""Benchmarks against peers; README.md in this folder describes them."""
