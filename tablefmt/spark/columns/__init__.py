"""Columns of DataFrames: match them to a table's names and types, check and compute them."""
