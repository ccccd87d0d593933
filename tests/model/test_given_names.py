"""Names that are not given (SCH-11), and that a table keeps what it has."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.ddl import schema_from
from tablefmt.model.schema_evolution import renamed, with_comment
from tablefmt.model.schema_rules import check_new_names

REFUSED = ("__tablefmt_file", "__TableFmt_x", "_tmp_metadata_row_index", "_TMP_metadata_row_INDEX")
TWINS = (("ı", "i"), ("İ", "I"), ("İ", "ı"), ("xı", "Xi"))


@pytest.mark.parametrize("name", REFUSED)
def test_kept_names_are_refused_however_they_come(name: str) -> None:
    """SCH-11: the names are refused at creation and in every schema change.

    Structs may have them.
    """
    with pytest.raises(SchemaMismatchError, match="SCH-11"):
        tablefmt.create("memory://new-names", pa.schema([(name, pa.int64())]))
    table = tablefmt.create(f"memory://new-names-{name}", "id BIGINT, s STRUCT<x: BIGINT>")
    for change in (
        lambda: table.alter.add_column(name, "BIGINT"),
        lambda: table.alter.rename_column("id", name),
        lambda: table.append(pa.table({name: [1]}), merge_schema=True),
        lambda: table.overwrite(pa.table({name: [1]}), overwrite_schema=True),
    ):
        with pytest.raises(SchemaMismatchError, match="SCH-11"):
            change()
    table.alter.rename_column("s.x", name)
    table.append(pa.table({"id": [1], "s": [{name: 2}]}))
    assert table.to_arrow().to_pylist() == [{"id": 1, "s": {name: 2}}]


@pytest.mark.parametrize("twins", TWINS)
def test_names_that_spark_takes_for_one_are_refused(twins: tuple[str, str]) -> None:
    """SCH-11, SCH-2: Java's comparison takes more for equal than Unicode's folding."""
    for kind in ("`{0}` BIGINT, `{1}` BIGINT", "a ARRAY<STRUCT<`{0}`: BIGINT, `{1}`: BIGINT>>"):
        with pytest.raises(SchemaMismatchError):
            tablefmt.create("memory://new-names-twins", kind.format(*twins))
    check_new_names(schema_from(f"`{twins[0]}` BIGINT, other BIGINT"))


def test_a_name_that_spark_would_replace_is_refused() -> None:
    """SCH-11: this holds at any depth. `$` and `{` alone are permitted."""
    for kind in ("`${spark.app.name}` BIGINT", "id INT, s ARRAY<STRUCT<`a${env:HOME}`: INT>>"):
        with pytest.raises(SchemaMismatchError, match="SCH-11"):
            tablefmt.create("memory://new-names-replaced", kind)
    tablefmt.create("memory://new-names-dollar", "`$` BIGINT, `{x}` BIGINT, `$x{}` BIGINT")


def test_text_that_is_no_unicode_is_no_name() -> None:
    """SCH-11: no entry could hold it."""
    table = tablefmt.create("memory://new-names-text", "id BIGINT")
    with pytest.raises(SchemaMismatchError, match="Unicode"):
        table.alter.rename_column("id", "\ud800")
    with pytest.raises(SchemaMismatchError, match="Unicode"):
        tablefmt.create("memory://new-names-text-2", "s STRUCT<`\udfff`: BIGINT>")


def test_a_table_that_has_such_a_name_goes_on() -> None:
    """SCH-11: the rule is about new names. It permits existing columns."""
    plain = schema_from("id BIGINT, i BIGINT, other BIGINT")
    names = ("__tablefmt_row", "ı", "i")
    old = replace(
        plain, fields=tuple(replace(f, name=n) for f, n in zip(plain.fields, names, strict=True))
    )
    assert with_comment(old, "i", "said").fields[2].comment == "said"
    with pytest.raises(SchemaMismatchError, match="SCH-11"):
        renamed(old, "__tablefmt_row", "__tablefmt_other")
