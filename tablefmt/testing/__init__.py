"""Shipped test material: the store contract, fault injection, simulations and reference models."""
