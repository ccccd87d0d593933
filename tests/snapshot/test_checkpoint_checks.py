"""Each check of a checkpoint's lines refuses what it is for, and accepts a sound part.

`test_wrong_checkpoints` shows what a table answers. Spec: CKP-3, CKP-9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tablefmt.model.schema import Field, Primitive
from tablefmt.snapshot.checkpoint_checks import (
    CheckpointLimits,
    columns_problem,
    deletes_problem,
    deletes_sum_problem,
    delta_problem,
    lines_problem,
    numbers_problem,
    sums_problem,
)
from tablefmt.snapshot.checkpoint_root import SegmentPart

Change = Callable[[pa.Table], pa.Table]

FIELDS = {
    1: Field(id=1, name="n", physical="n", type=Primitive("long")),
    2: Field(id=2, name="p", physical="p", type=Primitive("string")),
    3: Field(id=3, name="x", physical="x", type=Primitive("double")),
}
LIMITS = CheckpointLimits(
    version=9,
    next_id=20,
    deleted=3,
    last_id=5,
    fields=FIELDS,
    partition_ids=frozenset({2}),
    all_partition_ids=frozenset({2}),
)
SEGMENT = SegmentPart(
    path="_log/checkpoints/parts/0.parquet",
    size=100,
    sha256="0" * 64,
    footer=10,
    footer_sha256="0" * 64,
    files=3,
    gone=None,
    rows=12,
    ids=(4, 7),
    added=6,
    bounds={
        "1": {"lower": 1, "upper": 9, "nulls": 1},
        "2": {"lower": "a", "upper": "c", "nulls": 0},
        "3": {"lower": 0.5, "upper": 2.5, "nulls": 0, "nans": 0},
        "4": {"lower": 0, "upper": 9},
    },
)
"""Its dropped column 4 has bounds that no reader compares."""


def part(**changed: Any) -> pa.Table:
    """Three files; values of some columns changed, or without the column if None."""
    columns: dict[str, Any] = {
        "id": pa.array([5, 4, 7]),
        "added": pa.array([2, 2, 6]),
        "path": pa.array([f"data/{n}.parquet" for n in "abc"]),
        "size": pa.array([1000, 1, 3000]),
        "rows": pa.array([3, 4, 5]),
        "footer": pa.array([0, None, (1 << 32) - 1]),
        "written": pa.array([0, 2, 6]),
        "updated": pa.array([True, None, False]),
        "import": pa.array([None, None, None], pa.int64()),
        "digest": pa.array([None, None, b"x"]),
        "partition.2": pa.array(["a", "b", "c"]),
        "lower.1": pa.array([2, 1, 3]),
        "upper.1": pa.array([5, 9, 3]),
        "nulls.1": pa.array([0, 1, 0]),
        "lower.2": pa.array(["a", "b", "a"]),
        "upper.2": pa.array(["a", "c", "c"]),
        "nulls.2": pa.array([0, 0, 0]),
        "lower.3": pa.array([0.5, 1.0, 2.0]),
        "upper.3": pa.array([1.5, 1.0, 2.5]),
        "nulls.3": pa.array([0, 0, 0]),
        "nans.3": pa.array([0, 0, 0]),
        "lower.4": pa.array([20, 20, 20], pa.int32()),
    }
    for name, values in changed.items():
        name = name.replace("_", ".")
        if values is None:
            del columns[name]
        elif isinstance(values, pa.Array):
            columns[name] = values
        else:
            kind = columns[name].type if name in columns else None
            columns[name] = pa.array(values, kind)
    return pa.table(columns)


def problem_of(table: pa.Table) -> str | None:
    """The first problem that the checks of a manifest segment find, in the order of a reader."""
    ids, added = (table[name].combine_chunks().to_numpy(False) for name in ("id", "added"))
    return (
        columns_problem(table.schema, LIMITS)
        or lines_problem(table, SEGMENT, LIMITS)
        or numbers_problem(ids, added, SEGMENT)
        or sums_problem(table, SEGMENT, LIMITS)
    )


def test_a_sound_part_has_no_problem() -> None:
    """CKP-9: with its optional columns and without, with texts of 64-bit offsets, in parts."""
    assert problem_of(part()) is None
    names = part().column_names
    for name in set(names) - {"id", "added", "path", "size", "rows", "partition.2"}:
        assert problem_of(part().drop_columns([name])) is None, name
    large = {"path": pa.large_string(), "digest": pa.large_binary(), "lower.2": pa.large_string()}
    for name, kind in large.items():
        assert (
            problem_of(part(**{name.replace(".", "_"): part()[name].cast(kind).chunk(0)})) is None
        )
    for name in names:
        assert lines_problem(part().select([name]), SEGMENT, LIMITS) is None
        assert sums_problem(part().select([name]), SEGMENT, LIMITS) is None
    wider: dict[str, dict[str, Any]] = {
        "1": {"lower": 0, "upper": 10},
        "2": {"lower": "A", "upper": "z"},
    }
    for bounds in ({}, wider):
        assert sums_problem(part(), replace(SEGMENT, bounds=dict(bounds)), LIMITS) is None


def exchanged(columns: pa.Table, name: str, values: dict[int, Any]) -> pa.Table:
    """Change some lines of one column."""
    changed = [values.get(at, value) for at, value in enumerate(columns[name].to_pylist())]
    at = columns.column_names.index(name)
    return columns.set_column(at, name, pa.array(changed, columns[name].type))


NARROW = pa.array([1, 1, 1], pa.int16())
TEXT = pa.array(["1", "2", "3"])
LACKS = {
    **{name: f"it lacks the column '{name}'" for name in ("id", "added", "path", "size", "rows")},
    "partition_2": "it lacks the column 'partition.2'",
}
WRONG_COLUMNS: dict[str, tuple[dict[str, Any], str]] = {
    **{f"no {name}": ({name: None}, said) for name, said in LACKS.items()},
    **{
        f"{name} as int16": ({name: NARROW}, f"its column '{name}' has type int16")
        for name in ("id", "added", "size", "rows", "footer", "written", "import")
    },
    **{
        f"{name} as int16": ({name: NARROW}, f"its column '{name}' has type int16")
        for name in ("path", "updated", "digest")
    },
    **{
        f"{name} as text": (
            {name.replace(".", "_"): TEXT},
            f"its column '{name}' has type string",
        )
        for name in ("nulls.1", "nans.3")
    },
    **{
        f"column {name}": ({name: TEXT}, f"its column {name!r} is not a column of files")
        for name in ("extra", "keys", "lower", "lower.x", "id.1", "nulls.-1", "")
    },
    "field above": (
        {"lower_6": [1, 2, 3]},
        "its column 'lower.6' is of a field that the table never had",
    ),
    "other partition": (
        {"partition_1": [1, 2, 3]},
        "its column 'partition.1' is not of a partition column",
    ),
    "bound of text": (
        {"upper_1": TEXT},
        "its column 'upper.1' has type string, which its column never had",
    ),
    "bound of lists": (
        {"upper_4": pa.array([[1]] * 3)},
        "its column 'upper.4' has type list<item: int64>, which its column never had",
    ),
    "bound without a type": (
        {"upper_1": pa.nulls(3)},
        "its column 'upper.1' has type null",
    ),
}


@pytest.mark.parametrize(("changed", "said"), list(WRONG_COLUMNS.values()), ids=list(WRONG_COLUMNS))
def test_wrong_columns(changed: dict[str, Any], said: str) -> None:
    """CKP-9: a part is opened."""
    schema = part(**{name: values for name, values in changed.items() if "." not in name}).schema
    for name, values in changed.items():
        if "." in name:
            schema = schema.append(pa.field(name, values.type))
    found = columns_problem(schema, LIMITS)
    assert found is not None
    assert found.replace("<element:", "<item:") == said


def test_two_columns_of_one_name() -> None:
    """CKP-9."""
    schema = part().schema
    found = columns_problem(schema.append(schema.field("size")), LIMITS)
    assert found == "it has two columns of one name"


def invalid(*numbers: bytes) -> pa.Array:
    """Text of bytes that are not Unicode."""
    body = b"".join(numbers)
    ends = np.cumsum([0, *map(len, numbers)]).astype(np.int32)
    return pa.StringArray.from_buffers(3, pa.py_buffer(ends), pa.py_buffer(body))


def outside(name: str) -> str:
    return f"a file has an invalid number in {name!r}"


VALUE = "a file has a value in 'partition.2' that its bounds or NULLs exclude"
WRONG_LINES: dict[str, tuple[dict[str, Any], str]] = {
    **{
        f"no {name} in a line": (
            {name: [*part()[name].to_pylist()[:2], None]},
            f"a file lacks its {name!r}",
        )
        for name in ("id", "added", "path", "size", "rows", "written")
    },
    **{
        f"{name} {value}": (
            {name: [value, *part()[name].to_pylist()[1:]]},
            outside(name),
        )
        for name, value in (
            ("id", 3),
            ("id", 8),
            ("added", -1),
            ("added", 7),
            ("size", 0),
            ("rows", -1),
            ("footer", -1),
            ("footer", 1 << 32),
            ("written", -1),
            ("written", 10),
            ("import", 0),
        )
    },
    "path": (
        {"path": ["data/a.parquet", "data/../b.parquet", "data/c.parquet"]},
        "the path 'data/../b.parquet' is refused: ",
    ),
    "imported path": (
        {"path": ["data/a.parquet", "..", "data/c.parquet"], "import": [None, 1, None]},
        "the path '..' is refused: ",
    ),
    "text": (
        {"lower_2": invalid(b"a", b"\xff", b"a")},
        "its column 'lower.2' holds text that is not Unicode",
    ),
    "large text": (
        {"lower_2": invalid(b"a", b"\xff", b"a").cast(pa.large_string(), safe=False)},
        "its column 'lower.2' holds text that is not Unicode",
    ),
    "written later": (
        {"written": [3, 2, 6]},
        "a file was written under a version after the one that added it",
    ),
    "value below": ({"partition_2": ["a", "a", "c"]}, VALUE),
    "value above": ({"partition_2": ["b", "b", "c"]}, VALUE),
    "NULL beside a lower bound": (
        {"partition_2": ["a", None, "c"], "upper_2": None, "nulls_2": None},
        VALUE,
    ),
    "NULL beside an upper bound": (
        {"partition_2": ["a", None, "c"], "lower_2": None, "nulls_2": None},
        VALUE,
    ),
    "NULL beside no NULLs": (
        {"partition_2": ["a", None, "c"], "lower_2": None, "upper_2": None},
        VALUE,
    ),
    "NULLs in each row beside a value": ({"nulls_2": [0, 4, 0]}, VALUE),
    "too few NULLs beside NULL": (
        {"partition_2": ["a", None, "c"], "nulls_2": [0, 3, 0], "lower_2": None, "upper_2": None},
        VALUE,
    ),
}


@pytest.mark.parametrize(("changed", "said"), list(WRONG_LINES.values()), ids=list(WRONG_LINES))
def test_wrong_lines(changed: dict[str, Any], said: str) -> None:
    """CKP-9: columns of some rows are read."""
    found = lines_problem(part(**changed), SEGMENT, LIMITS)
    assert found is not None
    assert found.startswith(said) if said.endswith(": ") else found == said


def test_values_that_bounds_and_nulls_allow() -> None:
    """CKP-9: NULLs in every row, in none, in a file without rows; bounds of another type."""
    nothing = {"lower_2": None, "upper_2": None}
    null = {"partition_2": ["a", None, "c"], **nothing}
    assert lines_problem(part(**null, nulls_2=[0, 4, 0]), SEGMENT, LIMITS) is None
    assert lines_problem(part(**null, nulls_2=None), SEGMENT, LIMITS) is None
    assert lines_problem(part(**null, rows=[3, 0, 5]), SEGMENT, LIMITS) is None
    for nulls in ([None, 0, None], [0, 1, 0]):
        assert lines_problem(part(nulls_2=nulls), SEGMENT, LIMITS) is None
    other = pa.array([9, 9, 9])
    assert lines_problem(part(lower_2=other, upper_2=other), SEGMENT, LIMITS) is None
    assert lines_problem(part(rows=None, nulls_2=[9, 9, 9]), SEGMENT, LIMITS) is None
    assert lines_problem(part(rows=[3, 0, 5], nulls_2=[0, 0, 0]), SEGMENT, LIMITS) is None


@pytest.mark.parametrize(
    ("ids", "added", "said"),
    [
        ([1, 2, 3], [0, 0, 0], None),
        ([3, 1, 2], [4, 0, 0], None),
        ([1], [0], None),
        ([1, 1, 2], [0, 0, 0], "it has a file twice"),
        ([1, 2, 3], [1, 0, 0], "a file has an id that does not fit the version that added it"),
        ([1, 1 << 40], [0, 1], None),
        ([1, 1 << 40, 1], [0, 1, 0], "it has a file twice"),
        ([1, 1 << 40], [1, 0], "a file has an id that does not fit the version that added it"),
    ],
)
def test_ids_of_files_that_came_with_the_table(
    ids: list[int], added: list[int], said: str | None
) -> None:
    """CKP-9, ADD-2: version 0 may add files; ids may be dense or far apart."""
    segment = replace(SEGMENT, ids=(min(ids), max(ids)), added=max(added))
    assert numbers_problem(np.array(ids), np.array(added), segment) == said


def test_a_partition_column_that_is_not_read_hides_no_other() -> None:
    """CKP-9: whichever column comes first, 9 is not among those read."""
    two = replace(LIMITS, partition_ids=frozenset({9, 2}))
    wrong = part(partition_2=["z", "b", "c"])
    assert lines_problem(wrong, SEGMENT, two) == lines_problem(wrong, SEGMENT, LIMITS)
    assert lines_problem(wrong, SEGMENT, two) is not None


FAR = 1 << 40
"""So far from the other ids that no array spans them."""


@pytest.mark.parametrize(
    ("ids", "added", "ends", "newest", "said"),
    [
        ([5, 4, 7], [2, 2, 6], (4, 7), 6, None),
        ([5, FAR, 7], [2, 6, 2], (5, FAR), 6, None),
        ([5, 4, 7], [2, 2, 6], (3, 7), 6, "its ids or versions differ from the root"),
        ([5, 4, 7], [2, 2, 6], (4, 8), 6, "its ids or versions differ from the root"),
        ([5, 4, 7], [2, 2, 6], (4, 7), 7, "its ids or versions differ from the root"),
        ([5, 4, 7, 5], [2, 2, 6, 2], (4, 7), 6, "it has a file twice"),
        ([5, FAR, 5], [2, 6, 2], (5, FAR), 6, "it has a file twice"),
        (
            [5, 4, 7],
            [2, 6, 6],
            (4, 7),
            6,
            "a file has an id that does not fit the version that added it",
        ),
        (
            [FAR, 5, 7],
            [2, 6, 6],
            (5, FAR),
            6,
            "a file has an id that does not fit the version that added it",
        ),
    ],
)
def test_ids_and_versions(
    ids: list[int], added: list[int], ends: tuple[int, int], newest: int, said: str | None
) -> None:
    """CKP-9, ADD-2: each id once, in the order of versions; as the root says."""
    segment = replace(SEGMENT, ids=ends, added=newest)
    assert numbers_problem(np.array(ids), np.array(added), segment) == said


def beyond(name: str) -> str:
    return f"it has a value in {name!r} outside the bounds in the root"


WRONG_SUMS: dict[str, tuple[dict[str, Any], str]] = {
    "rows": ({"rows": [3, 4, 4]}, "its number of rows differs from the root"),
    "no rows": ({"rows": [3, 9, 0]}, "its number of rows differs from the root"),
    "lower": ({"lower_1": [2, 0, 3]}, beyond("lower.1")),
    "upper": ({"upper_1": [5, 10, 3]}, beyond("upper.1")),
    "nulls": ({"nulls_1": [0, 0, 0]}, beyond("nulls.1")),
    "nans": ({"nans_3": [0, 1, 0]}, beyond("nans.3")),
    "lower partition": ({"partition_2": ["A", "b", "c"]}, beyond("lower.2")),
    "upper partition": ({"partition_2": ["a", "b", "d"]}, beyond("upper.2")),
    "NULL partition": ({"partition_2": ["a", None, "c"]}, beyond("nulls.2")),
}


@pytest.mark.parametrize(("changed", "said"), list(WRONG_SUMS.values()), ids=list(WRONG_SUMS))
def test_wrong_sums(changed: dict[str, Any], said: str) -> None:
    """CKP-9: columns of a whole segment are read."""
    assert sums_problem(part(**changed), SEGMENT, LIMITS) == said


DELETES = pa.table(
    {
        "file": pa.array([1, 19]),
        "rows": pa.array([1, 5]),
        "deleted": pa.array([b"x", None]),
        "updated": pa.array([None, b"x"]),
        "version": pa.array([0, 9]),
    }
)


def test_sound_deleted_rows_have_no_problem() -> None:
    """CKP-9: texts of 64-bit offsets, too."""
    assert deletes_problem(DELETES.schema) is None
    maps = ("deleted", "updated")
    large = pa.schema(
        [(f.name, pa.large_binary() if f.name in maps else f.type) for f in DELETES.schema]
    )
    assert deletes_problem(large) is None
    assert delta_problem(DELETES, LIMITS) is None


@pytest.mark.parametrize("name", DELETES.column_names)
def test_wrong_columns_of_deleted_rows(name: str) -> None:
    """CKP-9."""
    said = "it does not have the columns of deleted rows"
    schema, at = DELETES.schema, DELETES.column_names.index(name)
    assert deletes_problem(schema.remove(at)) == said
    assert deletes_problem(schema.append(schema.field(at))) == said
    changed = schema.set(at, pa.field(name, pa.int16()))
    assert deletes_problem(changed) == f"its column {name!r} has type int16"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("file", [0, 19]),
        ("file", [1, 20]),
        ("file", [1, None]),
        ("version", [-1, 9]),
        ("version", [0, 10]),
        ("version", [None, 9]),
        ("rows", [0, 5]),
        ("rows", [1, None]),
    ],
)
def test_wrong_numbers_of_deleted_rows(name: str, values: list[int | None]) -> None:
    """CKP-9."""
    at = DELETES.column_names.index(name)
    changed = DELETES.set_column(at, name, pa.array(values, pa.int64()))
    assert delta_problem(changed, LIMITS) == f"a line has an invalid number in {name!r}"


def test_deleted_rows_without_positions() -> None:
    """CKP-9, DEL-1."""
    changed = DELETES.set_column(2, "deleted", pa.array([None, None], pa.binary()))
    assert delta_problem(changed, LIMITS) == "a line has no set of positions"


@pytest.mark.parametrize(
    ("files", "versions", "rows", "deleted", "said"),
    [
        ([4, 5, 4], [3, 3, 6], [1, 50, 2], 3, None),
        ([4, 5, 5], [3, 3, 6], [3, 1, 1], 3, None),
        (
            [4, 5, 4],
            [3, 3, 6],
            [1, 50, 2],
            53,
            "the number of deleted rows of its files differs from its entry",
        ),
        ([4, 5, 4], [3, 3, 3], [1, 50, 2], 3, "an entry deletes rows of a file twice"),
        ([5, 4, 5], [3, 3, 3], [1, 3, 2], 3, "an entry deletes rows of a file twice"),
    ],
)
def test_all_deleted_rows_together(
    files: list[int], versions: list[int], rows: list[int], deleted: int, said: str | None
) -> None:
    """CKP-9, DEL-4: rows of the live file 4 add up; the others mean nothing."""
    ids = np.array(files)
    found = deletes_sum_problem(ids, np.array(versions), np.array(rows), ids == 4, deleted)
    assert found == said
