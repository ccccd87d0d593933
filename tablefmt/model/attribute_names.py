"""Advice for attributes that a table or the package lacks: names of other libraries. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tablefmt.model.name_matching import did_you_mean

_COMPACT = "compact(), cluster(columns) or maintain()"
_LIVE = "scan().files()"

OF_TABLES: Mapping[str, str] = {
    "add_files": "append(data), or tablefmt.import_table for a folder of files",
    "collect": "to_arrow()",
    "detail": "`tablefmt describe`, properties, schema and partition_by",
    "executeCompaction": _COMPACT,
    "file_uris": _LIVE,
    "files": _LIVE,
    "get_add_actions": _LIVE,
    "insert": "append(data)",
    "inspect": "history(), snapshots(), tags() and scan()",
    "load_as_version": "scan(version=…)",
    "load_cdf": "changes(starting_version=…)",
    "load_with_datetime": "scan(timestamp=…)",
    "manage_snapshots": "alter.set_tag, alter.drop_tag and restore",
    "metadata": "schema, properties and partition_by",
    "optimize": _COMPACT,
    "overwrite_partitions": "overwrite(data, dynamic_partitions=True)",
    "read": "to_arrow() or scan()",
    "restoreToTimestamp": "restore(timestamp=…)",
    "restoreToVersion": "restore(version)",
    "rollback": "restore(version)",
    "select": "scan(columns=[…])",
    "filter": "scan(where=…)",
    "to_df": "to_arrow(), to_pandas(), to_polars(), or tablefmt.spark.open(spark, uri).to_df()",
    "toDF": "to_arrow(), to_pandas(), to_polars(), or tablefmt.spark.open(spark, uri).to_df()",
    "to_duckdb": "tablefmt.duckdb.relation(uri)",
    "to_pyarrow_dataset": "scan(), which streams and has filters, or to_reader()",
    "to_pyarrow_table": "to_arrow()",
    "update_schema": "alter",
    "update_spec": "alter.set_partitioning(fields)",
    "upsert": "merge(data, on).when_matched_update_all().when_not_matched_insert_all()",
    "version_as_of": "scan(version=…)",
    "where": "scan(where=…)",
}
"""The call that replaces a method of Delta, delta-rs, PyIceberg, polars or pandas."""

OF_PACKAGE: Mapping[str, str] = {
    "DeltaTable": "tablefmt.open, or tablefmt.compat.delta and tablefmt.compat.deltalake",
    "connect": "tablefmt.open, or tablefmt.duckdb.connect",
    "convert_to_deltalake": "tablefmt.import_table, or tablefmt.compat.deltalake",
    "delete": "tablefmt.open(uri).delete(where)",
    "forName": "tablefmt.spark.open(spark, name)",
    "forPath": "tablefmt.open, or tablefmt.spark.open with Spark",
    "load": "tablefmt.open",
    "load_catalog": "tablefmt.open, or tablefmt.compat.pyiceberg",
    "load_table": "tablefmt.open",
    "read": "tablefmt.open(uri).to_arrow()",
    "read_delta": "tablefmt.open(uri).to_polars()",
    "read_table": "tablefmt.open(uri).to_arrow()",
    "scan": "tablefmt.open(uri).scan(), or tablefmt.polars.scan(uri)",
    "scan_delta": "tablefmt.polars.scan(uri)",
    "scan_iceberg": "tablefmt.polars.scan(uri)",
    "vacuum": "tablefmt.open(uri).vacuum()",
    "write_deltalake": "tablefmt.write, or tablefmt.compat.deltalake",
    "write_table": "tablefmt.write",
}
"""The name that replaces one of the package of another library."""


def missing_attribute(
    of: str, name: str, elsewhere: Mapping[str, str], known: Iterable[str]
) -> AttributeError:
    """Return the error for an attribute that does not exist, with advice if the name is known.

    Args:
        of: the owner: `'Table' object`.
        name: the attribute.
        elsewhere: OF_TABLES or OF_PACKAGE.
        known: the attributes that exist, for names that are nearly one of them.
    """
    advice = ""
    if not name.startswith("_"):
        other = elsewhere.get(name)
        advice = did_you_mean(name, list(known)) if other is None else f"; use {other}"
    return AttributeError(f"{of} has no attribute {name!r}{advice}", name=name)


class NamedElsewhere:
    """Base of a table: a method of another library is refused, with the call that replaces it."""

    # A type checker refuses such a name by itself.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Refuse a name that the table lacks."""
            of = type(self)
            raise missing_attribute(f"{of.__name__!r} object", name, OF_TABLES, dir(of))
