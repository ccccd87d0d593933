"""Conditions that the log holds as text: read word by word, written anew for engines. Pure."""
