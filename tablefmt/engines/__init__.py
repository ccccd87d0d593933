"""Tables in the engines of others: DuckDB and polars read live files with readers of their own."""
