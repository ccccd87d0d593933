"""Conditions stored as text in the log: read token by token, and rewritten for engines. Pure."""
