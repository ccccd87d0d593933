"""Import of existing tables in place: Parquet folders, Delta and Iceberg. Nothing is copied."""
