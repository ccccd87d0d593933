"""Facts in the pages of spec/, for tests that compare them with the code."""

from __future__ import annotations

import re
from typing import Any

from tests.places import ROOT


def section(page: str, rule: str) -> str:
    """The text of one rule, without its heading."""
    text = (ROOT / "spec" / page).read_text(encoding="utf-8")
    start = text.index(f"### {rule}  ")
    end = re.search(r"^##", text[start + 3 :], re.MULTILINE)
    body = text[start : start + 3 + end.start() if end else len(text)]
    return body.partition("\n")[2]


def row_cells(page: str, rule: str) -> list[list[str]]:
    """The rows of the first table of a rule, without its head."""
    rows = [line for line in section(page, rule).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rows[2:]]


def fenced(page: str, rule: str, at: int = 0) -> str:
    """A block between fences of a rule."""
    return re.findall(r"^```\w*\n(.*?)^```", section(page, rule), re.MULTILINE | re.DOTALL)[at]


ANNOTATIONS = {
    r"None": "none",
    r"Int\(bitWidth=(\d+), isSigned=(\w+)\)": r"INT(\1, \2)",
    r"String": "STRING",
    r"Date": "DATE",
    r"Timestamp\(isAdjustedToUTC=(\w+), timeUnit=microseconds.*\)": r"TIMESTAMP(\1, MICROS)",
    r"Decimal\(precision=(\d+), scale=(\d+)\)": r"DECIMAL(\1, \2)",
}
"""pyarrow's words for annotations, and those of the specification."""


DDL = {
    "byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT",
    "timestamp_ntz": "TIMESTAMP_NTZ",
}  # fmt: skip
"""Spark's names of types that have another name in the specification."""


def parquet_type(column: Any) -> tuple[str, str]:
    """Physical type and annotation of a `pyarrow.parquet.ColumnSchema`, as DAT-15 writes them."""
    said = str(column.logical_type)
    known = [re.sub(p, to, said) for p, to in ANNOTATIONS.items() if re.fullmatch(p, said)]
    return str(column.physical_type), known[0] if known else said


def parquet_types() -> dict[str, tuple[str, str]]:
    """Return the Parquet types in DAT-15, without variants, with some p and s of decimals."""
    found, decimals = {}, []
    for name, physical, annotation, _ in row_cells("data.md", "DAT-15"):
        limit = re.fullmatch(r"`decimal\(p,s\)`(?:, p ≤ (\d+))?", name)
        if limit:
            decimals.append((int(limit[1] or 38), physical))
        elif name != "`variant`":
            found[name.strip("`")] = (physical, annotation)
    for p, s in ((1, 0), (9, 2), (10, 2), (18, 4), (19, 0), (38, 18)):
        physical = next(physical for most, physical in decimals if p <= most)
        found[f"decimal({p},{s})"] = (physical, f"DECIMAL({p}, {s})")
    return found
