"""The tables that the specification publishes say what the code does."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.data.column_bounds import STATS_COLUMNS
from tablefmt.errors import SchemaMismatchError
from tablefmt.model.properties import DECISIVE, PROPERTIES, check_properties, duration_seconds
from tests.spec.published import DDL, fenced, parquet_type, parquet_types, row_cells

PROPERTY_ROWS = {row[0].strip("`"): row for row in row_cells("properties.md", "PTY-2")}

SHAPES = {
    "count": (["1", str((1 << 50) - 1)], ["0", "-1", str(1 << 50), "1.5", "", "١"]),
    "duration": (
        ["0 seconds", "1 second", "30 DAYS", "interval 2 weeks", "999999 hours"],
        ["30", "1 month", "-1 days", "1000000 days", "1.5 hours", "", "x days", "5minute"],
    ),
    "names": (["", "a,b", "`a,b`, c"], []),
    "targets": (["", "delta", "iceberg,delta", "delta, iceberg"], ["hudi", "delta,", "Delta", " "]),
}
"""Texts that are values of that shape, and texts that are none."""


def _default(cell: str) -> str | None:
    if cell == "empty":
        return ""
    return cell.strip("`") if cell.startswith("`") else None


def test_every_property_is_published_with_its_default() -> None:
    """PTY-2, PRN-11: an absent `statsColumns` is not an empty one, nor any other text."""
    cells = {name: row[2] for name, row in PROPERTY_ROWS.items()}
    texts = {name: _default(cell) for name, cell in cells.items()}
    assert texts == {name: known.default for name, known in PROPERTIES.items()}
    assert [cell for name, cell in cells.items() if texts[name] is None] == [
        f"the first {STATS_COLUMNS}"
    ]


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_property_takes_the_values_that_are_published_and_no_others(name: str) -> None:
    """PTY-1, PTY-2, PTY-3: durations too."""
    shape = PROPERTY_ROWS[name][1]
    words = re.findall(r"`([^`]+)`", shape)
    every = {word for row in PROPERTY_ROWS.values() for word in re.findall(r"`([^`]+)`", row[1])}
    good, bad = SHAPES[shape] if not words else (words, [*(every - set(words)), words[0] + " ", ""])
    for value in good:
        assert check_properties({name: value}) == {name: value}
    for value in bad:
        with pytest.raises(SchemaMismatchError, match=name):
            check_properties({name: value})


def test_names_of_the_users_own_take_any_text_and_others_are_refused() -> None:
    """PTY-1."""
    assert check_properties({"user.x": " ü\n"}) == {"user.x": " ü\n"}
    with pytest.raises(SchemaMismatchError, match="retentionDuration"):
        check_properties({"retentionDuration": "1 day"})


def test_a_day_has_24_hours_and_what_rules_of_conflicts_go_by_is_published() -> None:
    """PTY-3, PTY-2."""
    assert duration_seconds("2 days") == 172_800
    assert duration_seconds("interval 1 week") == 604_800
    assert {n for n, row in PROPERTY_ROWS.items() if row[3].find("CFL-") >= 0} == set(DECISIVE)


def written_file(columns: str, folder: Path) -> pq.ParquetFile:
    """Return a file of one row of NULLs that the Arrow backend wrote."""
    table = tablefmt.create(str(folder), columns)
    table.append(pa.Table.from_pylist([{}], table.to_arrow().schema))
    (path,) = folder.glob("data/*/*.parquet")
    return pq.ParquetFile(path)


def test_columns_have_the_parquet_types_that_are_published(tmp_path: Path) -> None:
    """DAT-15."""
    published = parquet_types()
    columns = ", ".join(f"`{k}` {DDL.get(k, k)}" for k in published)
    schema = written_file(columns, tmp_path).schema
    assert {schema.column(i).name: parquet_type(schema.column(i)) for i in range(len(schema))} == (
        published
    )
    for at in range(len(schema)):
        if schema.column(at).physical_type == "FIXED_LEN_BYTE_ARRAY":
            digits, length = schema.column(at).precision, schema.column(at).length
            assert 256 ** (length - 1) < 2 * (10**digits) <= 256**length


def test_lists_maps_and_variants_lie_as_is_published(tmp_path: Path) -> None:
    """DAT-15, DAT-10: three levels, with these names."""
    file = written_file("l ARRAY<BIGINT>, m MAP<BIGINT, BIGINT>, v VARIANT", tmp_path)
    said = str(file.schema).partition("{\n")[2].rpartition("}")[0]
    shape = re.sub(r" field_id=-?\d+", "", said)
    layout = fenced("data.md", "DAT-15").replace("<type>", "int64")
    for name, annotation in (("l", "List"), ("m", "Map")):
        layout = layout.replace(f"column ({annotation.upper()})", f"{name} ({annotation})", 1)
    variant = "optional group v {\n  required binary value;\n  required binary metadata;\n}\n"
    assert textwrap.dedent(shape) == layout + variant
