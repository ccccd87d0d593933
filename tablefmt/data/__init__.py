"""Data files: writing, reading, and their footers. The only package that uses Parquet."""
