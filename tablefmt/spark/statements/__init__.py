"""DELETE, UPDATE, MERGE, replaceWhere and ALTER, for every execution backend."""
