"""Export: copies of a table's metadata in the forms of other table formats, over the same files."""
