"""Statements on a table as a whole: their recognition and their contents."""

from __future__ import annotations

from typing import Any

import pytest

from tablefmt.expressions.table_statements import (
    CloneRequest,
    LayoutStatement,
    TableStatement,
    TagStatement,
    read_statement,
)


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
        "CONVERT TO tablefmt parquet.`/a` PARTITIONED BY ()", "CONVERT TO tablefmt parquet.a",
        "CREATE TABLE a AS SELECT clone FROM b", "CREATE OR REPLACE TABLE IF NOT EXISTS a CLONE b",
        "REPLACE TABLE IF NOT EXISTS a CLONE b", "CREATE TABLE a SHALLOW DEEP CLONE b",
        "CREATE TABLE a CLONE b TBLPROPERTIES (x)", "CREATE TABLE a CLONE b TBLPROPERTIES (x = 1,)",
        "CREATE TABLE a CLONE b TBLPROPERTIES ()", "CREATE TABLE a CLONE b LOCATION x",
        "CREATE TABLE a CLONE b VERSION AS OF -1", "CREATE TABLE aCLONE b", "CREATE TABLE a CLONE",
        "CREATE TABLE '/a' CLONE b", "CREATE TABLE a CLONE b; DROP TABLE b", "CLONE a b",
        "ALTER TABLE t ALTER COLUMN a.b SYNC IDENTITY", "ALTER TABLE t ALTER idSYNC IDENTITY",
        "RESTORE t", "RESTORE t TO VERSION AS OF -1", "RESTORE t TO VERSION AS OF x",
        "RESTORE t TO TIMESTAMP AS OF now", "RESTORE t TO TIMESTAMP AS OF '1' || (SELECT 1)",
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("VACUUM t LITE", {"verb": "VACUUM"}),
        ("VACUUM t FULL RETAIN 1 HOURS DRY RUN", {"verb": "VACUUM", "hours": 1.0, "dry_run": True}),
        (
            "CONVERT TO tablefmt parquet.`t` NO STATISTICS PARTITIONED BY (p INT, q STRING)",
            {
                "verb": "CONVERT",
                "table": "`t`",
                "format": "parquet",
                "partition_schema": "p INT, q STRING",
            },
        ),
        ("OPTIMIZE t FULL", {"verb": "OPTIMIZE", "full": True}),
        ("REORG TABLE t APPLY (PURGE)", {"verb": "REORG"}),
        ("REORG TABLE t WHERE d > '1' APPLY(PURGE)", {"verb": "REORG", "where": "d > '1'"}),
        (
            "RESTORE t TO TIMESTAMP AS OF current_timestamp() - INTERVAL '1' DAY",
            {"verb": "RESTORE", "timestamp": "current_timestamp() - INTERVAL '1' DAY"},
        ),
        (
            "ALTER TABLE t CREATE TAG `q-1`",
            {"verb": "TAG", "by": ("q-1",), "tag_request": TagStatement(create=True)},
        ),
        (
            "ALTER TABLE t CREATE OR REPLACE TAG q AS OF VERSION 2 RETAIN 60 DAYS",
            {
                "verb": "TAG",
                "by": ("q",),
                "version": 2,
                "tag_request": TagStatement(create=True, replace=True, retain="60 DAYS"),
            },
        ),
        (
            "ALTER TABLE t REPLACE TAG `q`AS OF VERSION 1",
            {"verb": "TAG", "by": ("q",), "version": 1, "tag_request": TagStatement(replace=True)},
        ),
        (
            "ALTER TABLE t DROP TAG IF EXISTS q",
            {"verb": "TAG", "by": ("q",), "tag_request": TagStatement(drop=True, quiet=True)},
        ),
        (
            "ALTER TABLE t WRITE ORDERED BY a, b",
            {"verb": "WRITE", "layout": LayoutStatement(by=("a", "b"))},
        ),
        ("ALTER TABLE t WRITE UNORDERED", {"verb": "WRITE", "layout": LayoutStatement(by=())}),
        (
            "ALTER TABLE t WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY a",
            {"verb": "WRITE", "layout": LayoutStatement(by=("a",), by_partition=True)},
        ),
    ],
)
def test_statements_of_both_peers_on_a_table(text: str, expected: dict[str, Any]) -> None:
    assert read_statement(text) == TableStatement(**{"table": "t", **expected})


@pytest.mark.parametrize(
    ("text", "table", "feature"),
    [
        ("ALTER TABLE a.b CREATE BRANCH `x` RETAIN 7 DAYS", "a.b", "BRANCH"),
        ("ALTER TABLE t DROP BRANCH x", "t", "BRANCH"),
        ("ALTER TABLE t SET IDENTIFIER FIELDS id, x", "t", "IDENTIFIER FIELDS"),
        ("ALTER TABLE `t`DROP FEATURE 'x' TRUNCATE HISTORY", "`t`", "DROP FEATURE"),
        (
            "GENERATE symlink_format_manifest FOR TABLE tablefmt.`/a`",
            "tablefmt.`/a`",
            "GENERATE",
        ),
        ("VACUUM t USING INVENTORY (select 1)", "t", "USING INVENTORY"),
        (
            "REORG TABLE t APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))",
            "t",
            "REORG APPLY (UPGRADE UNIFORM)",
        ),
    ],
)
def test_statements_without_a_counterpart_are_read_to_refuse_them(
    text: str, table: str, feature: str
) -> None:
    found = read_statement(text)
    assert found is not None
    assert found.refused is not None
    assert (found.table, found.refused[0]) == (table, feature)


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t WRITE",
        "ALTER TABLE t WRITE x",
        "ALTER TABLE t CREATE TAG",
        "REORG TABLE t",
        "GENERATE x FOR t",
    ],
)
def test_incomplete_statements_of_the_peers_are_sparks(text: str) -> None:
    assert read_statement(text) is None
