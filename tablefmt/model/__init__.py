"""The vocabulary: values without I/O, clock or randomness. Imports nothing of ours but errors."""
