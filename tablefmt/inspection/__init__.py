"""Explanations of a table for people."""
