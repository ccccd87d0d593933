"""Pipes: copy new rows from one table into another, each exactly once.

Spec: PIP-1 .. PIP-8 (spec/pipes.md).
"""
