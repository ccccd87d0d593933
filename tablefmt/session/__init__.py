"""What verbs share: the open table, its pinned snapshot, staging, row changes, MERGE semantics."""
