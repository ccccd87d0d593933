"""Metadata under which rows were written, and later metadata that they do not fit. Spec: CFL-5."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tablefmt.conflict.conflict_check import misfit_of
from tablefmt.expressions.ddl import schema_from
from tablefmt.model.log_entry import Constraint, Metadata
from tablefmt.model.schema import Field, Primitive, Schema

FIELDS = schema_from("id BIGINT NOT NULL, n INT, s VARCHAR(9), p STRING").fields
WRITTEN = Metadata(
    Schema(FIELDS, 4), partition_by=(4,), constraints={"c": Constraint("n > 0", (2,))}
)


def later(number: int = 0, **changed: Any) -> Metadata:
    """The metadata with one column changed."""
    fields = tuple(replace(f, **changed) if f.id == number else f for f in FIELDS)
    return replace(WRITTEN, schema=Schema(fields, 4))


def added(**said: Any) -> Metadata:
    column = Field(5, "new", "new", Primitive("integer"), **said)
    return replace(WRITTEN, schema=Schema((*FIELDS, column), 5))


FITS = {
    "nothing": WRITTEN,
    "only the case of a name": later(2, name="N"),
    "NOT NULL dropped": later(1, nullable=True),
    "a comment": later(2, comment="rows"),
    "another order": replace(WRITTEN, schema=Schema(FIELDS[::-1], 4)),
    "a column without a default": added(),
    "a column whose default is that of old rows": added(default=7, initial=7),
    "a default, said": replace(WRITTEN, properties={"isolationLevel": "WriteSerializable"}),
    "a constraint fewer": replace(WRITTEN, constraints={}),
    "a constraint renamed": replace(WRITTEN, constraints={"d": Constraint("n > 0", (2,))}),
    "an application's property": replace(WRITTEN, properties={"x.y": "1"}),
}


@pytest.mark.parametrize("name", FITS)
def test_rows_fit_where_no_file_would_differ(name: str) -> None:
    assert misfit_of(WRITTEN, FITS[name]) is None


MISFITS = {
    "changed the partitioning": replace(WRITTEN, partition_by=()),
    "dropped column 'p'": replace(WRITTEN, schema=Schema(FIELDS[:3], 4)),
    "renamed column 'n'": later(2, name="m"),
    "changed the type of column 'n'": later(2, type=Primitive("long")),
    "changed the type of column 's'": later(3, text="varchar(10)"),
    "changed the default of column 'n'": later(2, default=3),
    "set NOT NULL on column 'n'": later(2, nullable=False),
    "added column 'new', which is NOT NULL": added(nullable=False),
    "added column 'new', and its default has changed since": added(default=7, initial=8),
    "added constraint 'd'": replace(
        WRITTEN, constraints={"c": Constraint("n > 0", (2,)), "d": Constraint("n > 1", (2,))}
    ),
    "set property 'isolationLevel'": replace(
        WRITTEN, properties={"isolationLevel": "Serializable"}
    ),
    "set property 'deleteMode'": replace(WRITTEN, properties={"deleteMode": "copy-on-write"}),
    "set property 'conflictGranularity'": replace(
        WRITTEN, properties={"conflictGranularity": "file"}
    ),
    "added constraint 'c'": replace(WRITTEN, constraints={"c": Constraint("n > 1", (2,))}),
}


@pytest.mark.parametrize("reason", MISFITS)
def test_the_change_that_rows_do_not_fit_is_named(reason: str) -> None:
    assert misfit_of(WRITTEN, MISFITS[reason]) == f"the winning commit {reason}"
