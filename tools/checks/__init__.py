"""Checks of the repository, and generators of pages from data. Each module is a program."""
