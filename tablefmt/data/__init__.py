"""Data files: writing, reading, and what their footers say. The only users of Parquet."""
