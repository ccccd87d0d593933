"""Logs as another program could have written them: a table's CHECK holds arbitrary text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

import tablefmt
from tablefmt.log.codec import decode, encode
from tablefmt.model.log_entry import Constraint

PROPERTY = "tablefmt.was.here"
"""A system property of the JVM that hostile text sets."""

_CALL = f"'java.lang.System', 'setProperty', '{PROPERTY}', 'y'"

HOSTILE = [
    f"reflect({_CALL}) IS NULL OR k > -100",
    f"java_method({_CALL}) IS NULL OR k > -100",
    f"try_reflect({_CALL}) IS NULL OR k > -100",
    f"Reflect /* */ ({_CALL}) IS NULL OR k > -100",
    f"`reflect`({_CALL}) IS NULL OR k > -100",
    f"system.builtin.reflect({_CALL}) IS NULL OR k > -100",
    f"IDENTIFIER('re' || 'flect')({_CALL}) IS NULL OR k > -100",
    f"exists(array(1), x -> reflect({_CALL}) IS NOT NULL)",
    f"t = 'a\\' OR reflect({_CALL}) IS NULL OR k > -100 --'",
    f"t <> 'a' -- \\\n OR reflect({_CALL}) IS NULL",
    f"k > -100 OR (SELECT reflect({_CALL})) IS NULL",
    f"k > -100) OR (reflect({_CALL}) IS NULL",
    f"CASE WHEN reflect({_CALL}) IS NULL THEN TRUE ELSE k > -100 END",
    "k > -100 OR (MAP 1 USING 'touch {marker}' AS y) IS NULL",
    "t <> ${spark.app.name}",
    "counted(k) > 0",
    "hostile_variable > 0",
    "raise_error('x') IS NULL",
    "length(repeat('x', 2000000000)) > k",
    "t <> aggregate(sequence(1, 60), t, (a, x) -> concat(a, a))",
]
"""Statements in which `{marker}` is the path of a file that must not be created."""


def poisoned(uri: str, condition: str) -> tablefmt.Table:
    """A table of `k INT, t STRING` with a row, whose newest entry has that condition as CHECK `c`.

    It is written past all checks, as another program would.
    """
    table = tablefmt.create(uri, "k INT, t STRING")
    table.append(pa.table({"k": pa.array([1], pa.int32()), "t": ["a"]}))
    version = table.alter.add_constraint("c", "k > -100").version
    path = Path(uri) / "_log" / f"{version:020d}.json"
    entry = decode(path.read_bytes(), version).entry
    assert entry.metadata is not None
    metadata = replace(entry.metadata, constraints={"c": Constraint(condition, (1,))})
    path.write_bytes(encode(replace(entry, metadata=metadata)))
    return tablefmt.open(uri)
