"""Conflict rules: decide if one commit may follow another. Pure: entries in, verdicts out."""
