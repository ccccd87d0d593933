"""Categories of polars and pandas, and all dictionaries of Arrow, are taken as their values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tablefmt
from tablefmt.data import value_conversion
from tablefmt.data.value_conversion import decoded
from tablefmt.errors import SchemaMismatchError

WORDS = ["a", None, "b", "a"]
ID = [1, 2, 3, 4]


def _views(words: list[str | None]) -> pa.Array:
    places = pa.array([None if w is None else "ab".index(w) for w in words], pa.uint8())
    return pa.DictionaryArray.from_arrays(places, pa.array(["a", "b"], pa.string_view()))


def _polars(kind: Any) -> pl.DataFrame:
    return pl.DataFrame({"id": ID, "c": pl.Series(WORDS).cast(kind)})


FLAT: dict[str, Any] = {
    "categorical": _polars(pl.Categorical()),
    "enum": _polars(pl.Enum(["b", "z", "a"])),
    "lazy": _polars(pl.Categorical()).lazy(),
    "pandas": pd.DataFrame({"id": ID, "c": pd.Categorical(WORDS)}),
    "dictionary": pa.table({"id": ID, "c": pa.array(WORDS).dictionary_encode()}),
    "views": pa.table({"id": ID, "c": _views(WORDS)}),
    "column": {"id": ID, "c": pl.Series(WORDS).cast(pl.Categorical())},
    "runs": pa.table({"id": ID, "c": pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 2, 3, 4], pa.int16()), _views(WORDS))}),
}  # fmt: skip
ROWS = [{"id": i, "c": c} for i, c in zip(ID, WORDS, strict=True)]


@pytest.mark.parametrize("kind", FLAT)
def test_every_verb_takes_categories_as_their_values(kind: str, tmp_path: Path) -> None:
    """SCH-5: the same rows and schema as of plain text."""
    data, uri = FLAT[kind], str(tmp_path / "t")
    tablefmt.write(data, uri, partition_by=["c"])
    table = tablefmt.open(uri)
    assert table.schema.field("c").type == pa.string()
    assert table.to_arrow().sort_by("id").to_pylist() == ROWS
    table.append(data)
    table.overwrite(data, dynamic_partitions=True)
    table.overwrite(data, where="id > 0")
    builder = table.merge(data, "s.id = t.id AND s.c <=> t.c", merge_schema=True)
    builder.when_matched_update_all().when_not_matched_insert_all().execute()
    assert table.refresh().to_arrow().sort_by("id").to_pylist() == ROWS
    table.overwrite(data, overwrite_schema=True, partition_by=[])
    assert table.refresh().to_arrow().to_pylist() == ROWS
    assert tablefmt.create(str(tmp_path / "u"), data).to_arrow().to_pylist() == ROWS


def test_the_same_rows_have_the_same_digest_however_they_are_encoded(tmp_path: Path) -> None:
    """CFL-7: the second write is known, and is not an error."""
    tablefmt.write(FLAT["views"], str(tmp_path), application=("job", 1))
    for kind in ("categorical", "pandas", "dictionary"):
        commit = tablefmt.write(FLAT[kind], str(tmp_path), application=("job", 1))
        assert commit.already_applied


def _nested() -> pa.Table:
    """Columns with dictionaries of views at every kind of place; NULL in each, unused elements."""
    flat = _views(["a", "b", None, "b", "a", "a", "b", None])
    four = pa.array([False, True, False, False])
    offsets = pa.array([0, 2, 3, 3, 8], pa.int32())
    keys = pa.array(list("stuvwxyz"))
    return pa.table(
        {
            "s": pa.StructArray.from_arrays([flat.slice(2, 4)], names=["x"], mask=four),
            "l": pa.ListArray.from_arrays(offsets, flat, mask=four),
            "ll": pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), flat),
            "f": pa.FixedSizeListArray.from_arrays(flat, 2, mask=four),
            "m": pa.MapArray.from_arrays(offsets, keys, flat),
            "deep": pa.StructArray.from_arrays(
                [pa.ListArray.from_arrays(offsets, flat)], names=["l"]
            ),
        }
    )


@pytest.mark.parametrize(("start", "count"), [(0, 4), (1, 3), (1, 1), (3, 1), (0, 0)])
def test_categories_inside_of_nested_columns(start: int, count: int, tmp_path: Path) -> None:
    """SCH-5: slices of nested columns work too."""
    given = _nested().slice(start, count)
    tablefmt.write(given, str(tmp_path))
    assert tablefmt.open(str(tmp_path)).to_arrow().to_pylist() == given.to_pylist()


def test_a_long_text_repeated_is_decoded_a_piece_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A small dictionary with many rows does not take the memory of all its values at once."""
    monkeypatch.setattr(value_conversion, "PIECE_BYTES", 1 << 20)
    places = pa.array([0, 1] * 5_000, pa.int32())
    column = pa.DictionaryArray.from_arrays(places, pa.array(["x" * 1_000, "y" * 1_000]))
    batches = list(decoded(pa.table({"c": column}).to_reader()))
    assert max(batch.nbytes for batch in batches) <= 1 << 21
    assert pa.Table.from_batches(batches)["c"].to_pylist() == column.to_pylist()


def test_values_that_do_not_fit_are_refused_only_if_a_row_has_one(tmp_path: Path) -> None:
    """SCH-5: a category that no row has may be anything."""
    table = tablefmt.create(str(tmp_path), "n TINYINT")
    numbers = pa.array([5, 1_000], pa.int64())
    table.append(pa.table({"n": pa.DictionaryArray.from_arrays(pa.array([0, 0]), numbers)}))
    assert table.to_arrow().to_pylist() == [{"n": 5}, {"n": 5}]
    with pytest.raises(SchemaMismatchError, match="'n'"):
        table.append(pa.table({"n": pa.DictionaryArray.from_arrays(pa.array([0, 1]), numbers)}))


def test_places_outside_of_a_dictionary_are_refused(tmp_path: Path) -> None:
    """Indices without a dictionary value are refused."""
    table = tablefmt.create(str(tmp_path), "c STRING")
    words = pa.array(["a"], pa.string_view())
    bad = pa.DictionaryArray.from_arrays(pa.array([0, 7]), words, safe=False)
    with pytest.raises(SchemaMismatchError, match="'c' holds invalid Arrow data"):
        table.append(pa.table({"c": bad}))
