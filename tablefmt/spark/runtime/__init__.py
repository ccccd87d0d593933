"""A running session: its ANSI mode, jobs, messages, and errors that cross processes."""
