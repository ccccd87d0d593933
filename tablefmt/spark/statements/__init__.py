"""DELETE, UPDATE, MERGE, replaceWhere, ALTER: what they do, whoever reads and writes the files."""
