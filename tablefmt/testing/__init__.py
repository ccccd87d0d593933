"""Test material for users: faults, the store contract, reference models, and random statements.

`FaultyStore` injects faults into the requests of a table that `open_at` opens. `contract` has the
tests that every store must pass. `reference_model` computes statements in plain Python, and
`random_statements` and `random_conditions` have strategies of hypothesis.
"""

from __future__ import annotations

from tablefmt.store.location import open_store
from tablefmt.table import open_at
from tablefmt.testing.faults import FaultyStore, Killed

__all__ = ["FaultyStore", "Killed", "open_at", "open_store"]
