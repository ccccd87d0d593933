"""Command line: inspect a table and its log, read changes, verify and maintain it."""
