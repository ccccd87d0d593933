"""Shipped test material: the store contract, and a store that fails on demand."""
