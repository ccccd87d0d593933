"""Golden cases of generated columns (GEN)."""

from __future__ import annotations

from collections.abc import Iterator

from golden.maker import Json, Maker, field, schema_of

FEATURE: Json = {"reader": [], "writer": ["generatedColumns"]}


def generated() -> Iterator[Maker]:
    """Yield a table with a generated column, and one whose constraints only look like it."""
    columns = [field(1, "x", "long"), field(2, "tw`ice", "long")]
    maker = Maker("generated-columns", columns)
    held = {"generated.2": {"columns": [1, 2], "condition": "`tw``ice` <=> (x * 2)"}}
    metadata = {**schema_of(columns), "constraints": held}
    maker.commit("PROTOCOL", "ADD FEATURE", protocol=FEATURE, metadata=metadata)
    maker.append({"x": 1, "tw`ice": 2}, {"x": None, "tw`ice": None})
    yield maker.good("A writer computes the column, a reader reads it like any other (GEN-1).")

    maker = Maker("generated-other-forms", columns)
    forms = {
        "generated.1": {"columns": [2], "condition": "`x` <=> (`tw``ice`)"},
        "generated.02": {"columns": [1, 2], "condition": "`tw``ice` <=> (x * 2)"},
        "generated.9": {"columns": [1], "condition": "x >= 0"},
    }
    maker.commit(
        "METADATA", "ADD CONSTRAINT", metadata={**schema_of(columns), "constraints": forms}
    )
    maker.append({"x": 0, "tw`ice": 0})
    yield maker.good("Constraints of another form are plain ones, whatever their names (GEN-1).")
