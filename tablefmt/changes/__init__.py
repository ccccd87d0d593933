"""What changed between two points: ranges, and the rows that commits inserted and deleted."""
