"""Matching of given columns to a table's columns by name. Pure. Spec: DAT-2."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.case_folding import folded
from tablefmt.model.schema import Schema


def match_names(
    given: Sequence[str], schema: Schema, more: Collection[str] = ()
) -> list[int | None]:
    """Return the position in `given` of every top-level column of the table; None if it is missing.

    Names match exactly, or else with case ignored.

    Args:
        given: names of the data's columns.
        schema: the table's schema.
        more: names of additional columns that are allowed.

    Raises:
        SchemaMismatchError: DAT-2. The data has columns that the table lacks, or doubled columns,
            or lacks columns that are NOT NULL without a default. The error names all of them.
    """
    positions: dict[str, int] = {}
    for at, name in enumerate(given):
        first = given[positions.setdefault(folded(name), at)]
        if positions[folded(name)] != at:
            raise SchemaMismatchError(
                f"the data has columns {first!r} and {name!r}, which differ only in case; drop one",
                [first, name],
            )
    extra = [name for name in given if schema.find(name) is None and name not in more]
    if extra:
        raise SchemaMismatchError(
            f"the data has columns that the table lacks: {', '.join(map(repr, extra))}; "
            f"the table has {', '.join(map(repr, schema.names))}",
            extra,
        )
    places = [positions.get(folded(field.name)) for field in schema.fields]
    missing = [
        field.name
        for field, at in zip(schema.fields, places, strict=True)
        if at is None and not field.nullable and field.default is None
    ]
    if missing:
        raise SchemaMismatchError(
            f"the data lacks columns that are NOT NULL: {', '.join(map(repr, missing))}", missing
        )
    return places
