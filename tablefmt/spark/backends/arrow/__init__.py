"""Arrow backend: Arrow in Spark's Python workers reads and writes the data files."""
