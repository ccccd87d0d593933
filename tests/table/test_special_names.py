"""Columns and fields with any name that SCH-2 and SCH-11 allow, in every call."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tablefmt
from tablefmt.data.direct_reader import SCANNER_COLUMNS
from tablefmt.errors import SchemaMismatchError
from tests.system.requests.test_scans import Far
from tests.tables import quoted

SCANNER = sorted(SCANNER_COLUMNS)

OTHERS = [
    "_metadata",
    "_file",
    "_pos",
    "_rowid_",
    "rowid",
    "filename",
    "file_row_number",
    "file_path",
    "file_index",
    "row_index",
    "_change_type",
    "_commit_version",
    "_commit_timestamp",
    "__index_level_0__",
    "__index__",
    "t",
    "s",
    "t0",
    "s0",
    "c0",
    "k",
    "key",
    "element",
    "list",
    "key_value",
    "value",
    "target",
    "source",
    "keep",
    "rn",
    "select",
    "from",
    "null",
    "true",
    "false",
    "case",
    "when",
    "interval",
    "current_date",
    "date",
    "timestamp",
    "nan",
    "inf",
    "position",
    "*",
    "a.b",
    ".a",
    "a.",
    "a..b",
    "..",
    "../x",
    "a/b",
    "a\\b",
    "a=b",
    "a,b",
    "a;b",
    "(x)",
    "[0]",
    "{}",
    "`",
    "``",
    "a`b",
    "'",
    "''",
    '"',
    '""',
    "--",
    "/*",
    "*/",
    "1",
    "1e3",
    "-",
    "%",
    "a%20b",
    "$",
    "@x",
    ":x",
    "?",
    "!",
    "FieldPath(0)",
    "count(1)",
    "😀",
    "Ä",
    "A\u0308",
    "ß",
    "ﬁ",
    "İ",
    "\x01",
    "\x7f",
    "\u200b",
    "\u2028",
]
BLANK = [" ", "x ", " x", "\u00a0x", "x\u00a0", "\t", "\n", "a\nb", "\r"]
NAMES = [*OTHERS, *BLANK, *SCANNER]


def rows(names: list[str], *ids: int) -> pa.Table:
    """`ident`, a column of each name, and a struct with a field of each."""
    inner = pa.struct([("k0", pa.int64()), *((name, pa.int64()) for name in names)])
    return pa.table(
        [
            pa.array(ids, pa.int64()),
            *(pa.array([i * 1000 + at for i in ids], pa.int64()) for at in range(len(names))),
            pa.array([{"k0": i, **{n: i + at for at, n in enumerate(names)}} for i in ids], inner),
        ],
        names=["ident", *names, "nested!"],
    )


def by_ident(table: pa.Table) -> dict[int, dict[str, Any]]:
    return {row["ident"]: row for row in table.to_pylist()}


def all_of(names: list[str], ident: int) -> str:
    """A condition on every column and field, true of one row."""
    return " AND ".join(
        f"{quoted(name)} = {ident * 1000 + at} AND `nested!`.{quoted(name)} = {ident + at}"
        for at, name in enumerate(names)
    )


GROUPS = [NAMES, *([name] for name in SCANNER), [".a"], ["null"], ["a.b"], ["`"]]


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("names", "far"), [*((names, False) for names in GROUPS), (NAMES[::5], True), ([".a"], True)]
)
def test_every_verb_takes_every_name(names: list[str], far: bool) -> None:
    """SCH-2, SCH-11: the rows are those of a model after each."""
    name = f"memory://special-{len(names)}-{'-'.join(map(str, names[0].encode()))}-{far}"
    table = tablefmt.create(name, rows(names, 1).schema)
    if far:
        table = tablefmt.table.open_at(Far(table.context.store))
    table.append(rows(names, 1, 2))
    table.append(rows(names, 3, 4))
    model = by_ident(rows(names, 1, 2, 3, 4))
    assert table.to_arrow() == rows(names, 1, 2, 3, 4)
    assert table.to_arrow(columns=names[::-1]) == rows(names, 1, 2, 3, 4).select(names[::-1])
    assert table.to_arrow(columns=["ident"], where="ident = 3")["ident"].to_pylist() == [3]
    assert by_ident(table.to_arrow(where=all_of(names, 2))) == {2: model[2]}
    assert table.scan(where=all_of(names, 2)).files().num_rows == 1
    assert table.scan(where=f"{quoted(names[0])} > 1000").count() == 3
    engine = " AND ".join(f"abs({quoted(n)}) % 1000 = {at}" for at, n in enumerate(names))
    assert by_ident(table.to_arrow(where=f"{engine} AND abs(ident) = 2")) == {2: model[2]}
    for at, one in enumerate(names[:5]):
        assert by_ident(table.to_arrow(where=pc.field(one) == 3000 + at)) == {3: model[3]}
    changed = table.changes(starting_version=1, columns=["ident", "nested!"]).to_arrow()
    assert changed["nested!"].to_pylist() == [model[i]["nested!"] for i in (1, 2, 3, 4)]

    table.update({quoted(n): f"{quoted(n)} + 500" for n in names}, all_of(names, 3))
    table.update({f"`nested!`.{quoted(n)}": "7" for n in names}, "ident = 4")
    for one in names:
        model[3][one] += 500
        model[4]["nested!"][one] = 7
    assert by_ident(table.to_arrow()) == model
    table.delete(all_of(names, 1))
    del model[1]
    assert by_ident(table.to_arrow()) == model
    assert table.scan(where=all_of(names, 2)).count() == 1

    equal = " AND ".join(f"t.{quoted(n)} = s.{quoted(n)}" for n in names)
    merge = table.merge(rows(names, 2, 9), equal)
    merge = merge.when_matched_update({quoted(n): f"t.{quoted(n)} + s.ident" for n in names})
    merge.when_not_matched_insert_all().execute()
    for one in names:
        model[2][one] += 2
    model[9] = by_ident(rows(names, 9))[9]
    assert by_ident(table.to_arrow()) == model
    table.alter.set_properties({"deleteMode": "copy-on-write"})
    merge = table.merge(rows(names, 2), "t.ident = s.ident").when_matched_update_all()
    merge.when_not_matched_by_source_delete(f"t.{quoted(names[0])} = 9000").execute()
    model[2] = by_ident(rows(names, 2))[2]
    del model[9]
    assert by_ident(table.to_arrow()) == model
    table.alter.add_constraint("c", " AND ".join(f"{quoted(n)} >= 0" for n in names))
    table.append(rows(names, 11))
    assert by_ident(table.to_arrow(where=all_of(names, 11))) == by_ident(rows(names, 11))
    assert table.verify(deep=True).ok


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "name", [*SCANNER, "_metadata", ".a", "a.b", "null", "`", "a=b", " ", "x "]
)
def test_partitions_and_renamed_columns(name: str) -> None:
    """SCH-2, SCH-3: a column gets the name later, and files were written under other names."""
    code = "-".join(map(str, name.encode()))
    parted = tablefmt.create(f"memory://parted-{code}", rows([name], 1).schema, partition_by=[name])
    parted.append(rows([name], 1, 2, 3))
    assert parted.scan(where=f"{quoted(name)} = 2000").files().num_rows == 1
    parted.overwrite(rows([name], 2), where=f"{quoted(name)} = 2000")
    parted.overwrite(rows([name], 3), dynamic_partitions=True)
    parted.delete(f"{quoted(name)} = 1000")
    assert by_ident(parted.to_arrow()) == by_ident(rows([name], 2, 3))

    table = tablefmt.create(
        f"memory://renamed-{code}", "ident BIGINT, old BIGINT, st STRUCT<old: BIGINT>"
    )
    table.append(pa.table({"ident": [1], "old": [10], "st": [{"old": 5}]}))
    table.alter.rename_column("old", name)
    table.alter.rename_column("st.old", name)
    given = {"ident": 1, name: 10, "st": {name: 5}}
    assert table.to_arrow().to_pylist() == [given]
    assert table.to_arrow(where=f"{quoted(name)} = 10 AND st.{quoted(name)} = 5").num_rows == 1
    path = quoted(name) if set(name) & set(".`") else name
    table.alter.drop_column(path)
    table.append(pa.table({"ident": [2], "st": [{name: 6}]}))
    table.alter.add_column(path, "BIGINT", default=3)
    table.append(pa.table({"ident": [3], name: [4], "st": [{name: 7}]}))
    assert [row[name] for row in table.to_arrow().sort_by("ident").to_pylist()] == [3, 3, 4]
    assert table.to_arrow(where=f"{quoted(name)} = 3", limit=1).num_rows == 1
    table.alter.rename_column(path, "plain")
    # The files keep the physical name.
    assert table.to_arrow(columns=["plain"], where="plain = 4").to_pydict() == {"plain": [4]}
    assert table.scan(where="abs(plain) = 3").count() == 2


def test_columns_called_like_those_of_changes_are_left_out_of_them() -> None:
    """INC-1: they would be there twice."""
    table = tablefmt.create("memory://special-changes", "id BIGINT, _change_type STRING")
    table.append(pa.table({"id": [1], "_change_type": ["x"]}))
    with pytest.raises(SchemaMismatchError, match="leave them out"):
        table.changes(starting_version=0)
    assert table.changes(starting_version=0, columns=["id"]).to_arrow()["id"].to_pylist() == [1]
