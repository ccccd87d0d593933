"""Tables in other engines: DuckDB and polars read live files with their own readers."""
