"""The documentation site: hooks of mkdocs, and the generators of its tables."""
