"""Change feed between two points: version ranges, and the rows that commits inserted and
deleted.
"""
