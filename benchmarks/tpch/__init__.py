"""The 22 queries of TPC-H with the validation parameters of its specification, one file each."""

from __future__ import annotations

from pathlib import Path

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


def queries() -> dict[str, str]:
    """SQL by name, q01 to q22."""
    return {path.stem: path.read_text() for path in sorted(Path(__file__).parent.glob("q*.sql"))}
