"""The put-if-absent sequence of entries: names, bytes, and how to read them."""
