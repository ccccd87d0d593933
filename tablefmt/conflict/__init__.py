"""May this commit go on top of that one? Pure: entries in, verdicts out."""
