"""A running session: its ANSI mode, jobs, options, and errors that cross processes."""
