"""Statements on a table as a whole: their recognition and their contents."""

from __future__ import annotations

import pytest

from tablefmt.expressions.table_statements import CloneRequest, TableStatement, read_statement


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DESCRIBE HISTORY t", TableStatement(verb="HISTORY", table="t")),
        (
            " -- all of it\n/* of; late */ desc\nhistory a.`b``c`.d LIMIT 3 ;;",
            TableStatement(verb="HISTORY", table="a.`b``c`.d", limit=3),
        ),
        ("describe detail `a b`", TableStatement(verb="DETAIL", table="`a b`")),
        ("DESC DETAIL tablefmt.`/a b`", TableStatement(verb="DETAIL", table="tablefmt.`/a b`")),
        ("OPTIMIZE t", TableStatement(verb="OPTIMIZE", table="t")),
        (
            "optimize t where day = '2024' AND s <> 'ZORDER'",
            TableStatement(verb="OPTIMIZE", table="t", where="day = '2024' AND s <> 'ZORDER'"),
        ),
        (
            "OPTIMIZE db.t WHERE p IN (1, 2)\nZORDER BY (a, `b.c` , s . x)",
            TableStatement(
                verb="OPTIMIZE", table="db.t", where="p IN (1, 2)", by=("a", "b.c", "s.x")
            ),
        ),
        ("OPTIMIZE t ZORDER BY a, b", TableStatement(verb="OPTIMIZE", table="t", by=("a", "b"))),
        (
            "CREATE TABLE a CLONE b",
            TableStatement(verb="CLONE", table="b", clone=CloneRequest(target="a")),
        ),
        (
            "create or replace table db.`a b`shallow clone c.d version as of 3 ;",
            TableStatement(
                verb="CLONE",
                table="c.d",
                version=3,
                clone=CloneRequest(target="db.`a b`", shallow=True, replace=True),
            ),
        ),
        (
            "REPLACE TABLE a DEEP CLONE tablefmt.`/b` TIMESTAMP AS OF '2024-01-01'",
            TableStatement(
                verb="CLONE",
                table="tablefmt.`/b`",
                timestamp="'2024-01-01'",
                clone=CloneRequest(target="a", create=False, replace=True),
            ),
        ),
        (
            "CREATE TABLE IF NOT EXISTS tablefmt.`/a` SHALLOW CLONE '/b' VERSION AS OF 'it''s'",
            TableStatement(
                verb="CLONE",
                table="tablefmt.`/b`",
                by_path=True,
                tag="it's",
                clone=CloneRequest(target="tablefmt.`/a`", shallow=True, if_missing=True),
            ),
        ),
        (
            "CREATE TABLE a CLONE b TBLPROPERTIES ('x y' = 'it\\'s, (so)', user.b=true)"
            "LOCATION '/l'",
            TableStatement(
                verb="CLONE",
                table="b",
                clone=CloneRequest(
                    target="a",
                    properties={"x y": "it's, (so)", "user.b": "true"},
                    location="/l",
                ),
            ),
        ),
        ("VACUUM t", TableStatement(verb="VACUUM", table="t")),
        (
            "VACUUM t RETAIN 1.5 HOURS DRY RUN",
            TableStatement(verb="VACUUM", table="t", hours=1.5, dry_run=True),
        ),
        ("vacuum t dry  run", TableStatement(verb="VACUUM", table="t", dry_run=True)),
        (
            "ALTER TABLE a.`b c` ALTER COLUMN `id` SYNC IDENTITY;",
            TableStatement(verb="SYNC", table="a.`b c`", by=("id",)),
        ),
        (
            "alter table '/a/b' alter k sync identity",
            TableStatement(verb="SYNC", table="tablefmt.`/a/b`", by_path=True, by=("k",)),
        ),
        (
            "RESTORE TABLE t TO VERSION AS OF 12",
            TableStatement(verb="RESTORE", table="t", version=12),
        ),
        (
            "RESTORE t TO VERSION AS OF '2026-Q3'",
            TableStatement(verb="RESTORE", table="t", tag="2026-Q3"),
        ),
        (
            "RESTORE t TIMESTAMP AS OF '2024-01-01 00:00:00'",
            TableStatement(verb="RESTORE", table="t", timestamp="'2024-01-01 00:00:00'"),
        ),
        (
            "OPTIMIZE t WHERE p = 'a' -- ZORDER BY (id)",
            TableStatement(verb="OPTIMIZE", table="t", where="p = 'a'"),
        ),
        (
            "OPTIMIZE t WHERE p = 'x ZORDER BY y'",
            TableStatement(verb="OPTIMIZE", table="t", where="p = 'x ZORDER BY y'"),
        ),
        (
            "OPTIMIZE t WHERE p = r'\\' OR p IN ('y', ' zorder by id, x')",
            TableStatement(
                verb="OPTIMIZE", table="t", where="p = r'\\' OR p IN ('y', ' zorder by id, x')"
            ),
        ),
        (
            "OPTIMIZE t WHERE `a -- b` = '/* ' AND q = 'it''s \\' --'/*/* d */;*/ZORDER BY(`x)`)",
            TableStatement(
                verb="OPTIMIZE",
                table="t",
                where="`a -- b` = '/* ' AND q = 'it''s \\' --'",
                by=("x)",),
            ),
        ),
        (
            "OPTIMIZE t WHERE(p = 1 -- one\n OR p = 2) zorder by a -- b\n, c ; -- d",
            TableStatement(
                verb="OPTIMIZE", table="t", where="(p = 1       \n OR p = 2)", by=("a", "c")
            ),
        ),
        ("VACUUM t -- DRY RUN", TableStatement(verb="VACUUM", table="t")),
        ("OPTIMIZE t -- all", TableStatement(verb="OPTIMIZE", table="t")),
        ("VACUUM /* now */ t", TableStatement(verb="VACUUM", table="t")),
        (
            "/* a /* b */ c */VACUUM/**/`a/*`. /* d */ t --\\\n DRY RUN",
            TableStatement(verb="VACUUM", table="`a/*`.         t"),
        ),
        ("VACUUM '/a/b'", TableStatement(verb="VACUUM", table="tablefmt.`/a/b`", by_path=True)),
        (
            r'''OPTIMIZE "/a `b`'/\"c\\ ""d" WHERE p = '/x' ZORDER BY (id);''',
            TableStatement(
                verb="OPTIMIZE",
                table="tablefmt.`/a ``b``'/\"c\\ \"d`",
                by_path=True,
                where="p = '/x'",
                by=("id",),
            ),
        ),
        (
            "DESC HISTORY 's3://b/it''s -- c\\u0041' LIMIT 2",
            TableStatement(
                verb="HISTORY", table="tablefmt.`s3://b/it's -- cA`", by_path=True, limit=2
            ),
        ),
        (
            "DESCRIBE DETAIL /* d */ 'file:/a'",
            TableStatement(verb="DETAIL", table="tablefmt.`file:/a`", by_path=True),
        ),
        (
            "RESTORE TABLE '/a' TO TIMESTAMP AS OF '2024-01-01'",
            TableStatement(
                verb="RESTORE", table="tablefmt.`/a`", by_path=True, timestamp="'2024-01-01'"
            ),
        ),
        (
            "convert /* it */ to TableFmt Delta . `/a ``b``.c`;",
            TableStatement(verb="CONVERT", table="`/a ``b``.c`", format="delta"),
        ),
        # A table may be called as a word of the statement.
        ("DESCRIBE HISTORY history", TableStatement(verb="HISTORY", table="history")),
        ("OPTIMIZE optimize", TableStatement(verb="OPTIMIZE", table="optimize")),
    ],
)  # fmt: skip
def test_what_a_statement_says(text: str, expected: TableStatement) -> None:
    """Words in any case, names in quotes, comments before, semicolons behind."""
    assert read_statement(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "DESCRIBE t", "DESCRIBE HISTORY", "DESCRIBE HISTORY t u", "DESCRIBE HISTORY t LIMIT -1",
        "DESCRIBE TABLE EXTENDED t", "SELECT 'OPTIMIZE t'", "OPTIMIZE", "OPTIMIZE t WHERE",
        "OPTIMIZE t ZORDER BY ()", "OPTIMIZE t ZORDER BY (a,)", "OPTIMIZE t ZORDER BY (a b)",
        "VACUUM t RETAIN HOURS", "VACUUM t RETAIN 1 DAYS", "VACUUM t DRY", "VACUUM 'path'",
        "VACUUM r'/path'", "VACUUM ''", "VACUUM '/a' '/b'", "VACUUM default.'/a'",
        "VACUUM '/a\\UFFFFFFFF'", "OPTIMIZE TABLE t", "DESCRIBE DETAIL TABLE t",
        "CONVERT TO DELTA parquet.`/a`", "CONVERT TO tablefmt `/a`", "CONVERT TO tablefmt orc.`/a`",
        "CONVERT TO tablefmt parquet.`/a` PARTITIONED BY (p INT)", "CONVERT TO tablefmt parquet.a",
        "CREATE TABLE a AS SELECT clone FROM b", "CREATE OR REPLACE TABLE IF NOT EXISTS a CLONE b",
        "REPLACE TABLE IF NOT EXISTS a CLONE b", "CREATE TABLE a SHALLOW DEEP CLONE b",
        "CREATE TABLE a CLONE b TBLPROPERTIES (x)", "CREATE TABLE a CLONE b TBLPROPERTIES (x = 1,)",
        "CREATE TABLE a CLONE b TBLPROPERTIES ()", "CREATE TABLE a CLONE b LOCATION x",
        "CREATE TABLE a CLONE b VERSION AS OF -1", "CREATE TABLE aCLONE b", "CREATE TABLE a CLONE",
        "CREATE TABLE '/a' CLONE b", "CREATE TABLE a CLONE b; DROP TABLE b", "CLONE a b",
        "ALTER TABLE t ALTER COLUMN a.b SYNC IDENTITY", "ALTER TABLE t ALTER idSYNC IDENTITY",
        "RESTORE t", "RESTORE t TO VERSION AS OF -1", "RESTORE t TO VERSION AS OF x",
        "RESTORE t TO TIMESTAMP AS OF now()", "RESTORE t TO TIMESTAMP AS OF '1' || (SELECT 1)",
        "/* OPTIMIZE t", "OPTIMIZE t; DROP TABLE t", "VACUUM a..b", "OPTIMIZE t ZORDER BY ( )",
        "OPTIMIZE t WHERE p = 1; DROP TABLE t", "OPTIMIZE t WHERE p = 'a", "OPTIMIZE t WHERE (p",
        "OPTIMIZE t WHERE p) ZORDER BY (a", "OPTIMIZE t WHERE /* p = 1 */", "OPTIMIZE t /* all",
        "OPTIMIZE t ZORDER BY a ZORDER BY b", "VACUUM t `DRY` RUN", "VACUUM t /* a /* b */",
        "VACUUM t /*+ DRY */ DRY RUN", f"DESCRIBE HISTORY t LIMIT {10**30}",
        f"RESTORE t TO VERSION AS OF {10**30}", f"VACUUM t RETAIN {10**30} HOURS",
    ],
)  # fmt: skip
def test_every_other_text_is_left_to_spark(text: str) -> None:
    """An incomplete statement is not executed in part."""
    assert read_statement(text) is None
