"""Rows from one table into another, each exactly once. Spec: PIP-1 .. PIP-7 (spec/pipes.md)."""
