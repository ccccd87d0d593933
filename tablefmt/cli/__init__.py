"""The command line: what a table is, what its log says, what changed, and whether it is sound."""
