"""Arrow reads and writes the data files, in Spark's Python workers."""
