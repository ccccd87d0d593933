"""Log: a put-if-absent sequence of entries. Names, bytes, and reading."""
