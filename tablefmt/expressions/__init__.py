"""Conditions, values of columns and clauses: what they say, read from text and trees. Pure."""
