"""Code that all operations share: the open table, transaction snapshots, staging, row changes,
MERGE.
"""
