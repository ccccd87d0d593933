"""How one entry gets into the log: the pure protocol, its outcomes, and the driver beside it."""
