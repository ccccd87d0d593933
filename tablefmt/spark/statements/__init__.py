"""DELETE, UPDATE, MERGE, replaceWhere and ALTER, for every execution backend.

`execution.execute` runs each of them as one commit, by `session.staging.autocommit`.
"""
