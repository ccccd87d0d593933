"""Checks of the repository, and pages that are made of data: each module is a program."""
