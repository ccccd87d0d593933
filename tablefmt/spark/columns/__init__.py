"""Columns of DataFrames: by the names and types of a table, checked, computed."""
