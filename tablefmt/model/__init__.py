"""Vocabulary: values without I/O, clock or randomness. It imports only `errors` of this package."""
