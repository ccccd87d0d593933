"""Conditions, column values and MERGE clauses: their meaning, read from text and trees. Pure."""
