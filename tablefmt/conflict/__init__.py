"""Conflict rules: decide if one commit may follow another. Pure: entries in, verdicts out.

`conflict_matrix` has the rule of each pair of operations, such as an UPDATE and a compaction.
`conflict_check` applies it to two commits. `rebase` moves a commit onto the other one.
"""
