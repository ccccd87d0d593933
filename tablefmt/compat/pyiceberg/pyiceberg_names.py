"""The names of PyIceberg, and what each is here."""

from __future__ import annotations

from tablefmt.compat.translation import Names, Row, refused, same, unused

_CASE = "names of columns are compared without case"
_BRANCH = "a table has one line of versions; leave it out"
_MANIFESTS = "the log has no manifests; see scan().files()"
_SCHEMAS = "read an older version to see its columns: scan(snapshot_id=…)"
_LIST = "list the folders of the warehouse"
_VIEW = "there are no views without Spark's catalog"
_EVERY = ("append", "overwrite", "delete", "upsert", "dynamic_partition_overwrite")

_CATALOG = (
    same("load_catalog", "none", "tables are folders below `warehouse`; no service"),
    same("Catalog.create_table", "tablefmt.create(uri, schema)"),
    same("Catalog.create_table_if_not_exists", "tablefmt.create(..., exist_ok=True)"),
    *(
        refused(f"Catalog.{name}(sort_order)", "sort the rows with Table.cluster(by)")
        for name in ("create_table", "create_table_if_not_exists")
    ),
    same("Catalog.load_table", "tablefmt.open(uri)"),
    same("Catalog.table_exists", "tablefmt.exists(uri)"),
    same("Catalog.drop_table", "tablefmt.drop(uri)"),
    same("Catalog.purge_table", "tablefmt.drop(uri, delete_data=True)"),
    same("Catalog.create_namespace", "none", "a namespace is a folder, and needs no creation"),
    same("Catalog.create_namespace_if_not_exists", "none", "as create_namespace"),
    *(
        unused(f"Catalog.{name}(properties)", "namespaces have no properties")
        for name in ("create_namespace", "create_namespace_if_not_exists")
    ),
    same("Catalog.close", "none"),
    refused("Catalog.drop_namespace", "drop its tables"),
    refused("Catalog.namespace_exists", _LIST),
    refused("Catalog.list_namespaces", _LIST),
    refused("Catalog.list_tables", _LIST),
    refused("Catalog.list_views", _VIEW),
    refused("Catalog.create_view", _VIEW),
    refused("Catalog.drop_view", _VIEW),
    refused("Catalog.load_view", _VIEW),
    refused("Catalog.register_view", _VIEW),
    refused("Catalog.view_exists", _VIEW),
    refused("Catalog.load_namespace_properties", "namespaces have no properties"),
    refused("Catalog.update_namespace_properties", "namespaces have no properties"),
    refused("Catalog.register_table", 'import the table: tablefmt.import_table(uri, "iceberg")'),
    refused("Catalog.rename_table", "move the folder of the table; no reader may use it then"),
    refused("Catalog.create_table_transaction", "create the table, then Table.transaction()"),
    refused("Catalog.commit_table", "use the methods of the table"),
    refused("Catalog.supports_server_side_planning", "there is no server"),
    *(
        refused(f"Catalog.{name}", "write identifiers as 'namespace.table'")
        for name in (
            *("identifier_to_database", "identifier_to_database_and_table"),
            *("identifier_to_tuple", "namespace_from", "namespace_to_string", "table_name_from"),
        )
    ),
)

_TABLE = (
    same("Table.append", "Table.append(data)"),
    same("Table.overwrite", "Table.overwrite(data, where)", "new rows must match the filter"),
    same("Table.dynamic_partition_overwrite", "Table.overwrite(data, dynamic_partitions=True)"),
    same("Table.delete", "Table.delete(where)"),
    same("Table.upsert", "Table.merge(source, on)", "`join_cols` is required"),
    *(refused(f"Table.{name}(branch)", _BRANCH) for name in _EVERY),
    *(
        refused(f"Table.{name}(case_sensitive)", _CASE)
        for name in ("overwrite", "delete", "upsert", "scan", "update_schema")
    ),
    same("Table.scan", "Table.scan(where=, columns=, version=, limit=)"),
    unused("Table.scan(options)", "scans have no options"),
    same("Table.history", "Table.history()"),
    same("Table.snapshots", "Table.history()", "each version but 0 is a snapshot"),
    same("Table.snapshot_by_id", "Table.history()"),
    same("Table.current_snapshot", "Table.version"),
    same("Table.snapshot_as_of_timestamp", "scan(timestamp=)"),
    same("Table.inspect", "Table.history(), scan().files()"),
    same("Table.update_schema", "Table.alter", "a commit for each change"),
    refused("Table.update_schema(allow_incompatible_changes)", "add a column of the new type"),
    same("Table.schema", "Table.schema", "an Arrow schema"),
    same("Table.properties", "Table.properties"),
    same("Table.location", "Table.uri"),
    same("Table.name", "Table.uri"),
    same("Table.refresh", "Table.refresh()"),
    same("Table.to_polars", "tablefmt.polars.scan(uri)"),
    refused("Table.add_files", "append the rows of the files"),
    refused("Table.format_version", "use `tablefmt describe`"),
    refused("Table.incremental_append_scan", 'use Table.changes(after_version=, content="append")'),
    refused("Table.last_partition_id", "partitioning has no ids; see Table.partition_by"),
    refused("Table.last_sequence_number", "use Table.version"),
    refused("Table.location_provider", "files are below the table's folder"),
    refused("Table.maintenance", "use Table.maintain(), vacuum() and expire_log()"),
    refused("Table.manage_snapshots", "use Table.restore(version)"),
    refused("Table.metadata_location", "the log is below the table's folder"),
    refused("Table.name_mapping", "columns have ids"),
    refused("Table.refs", "a table has one line of versions"),
    refused("Table.schemas", _SCHEMAS),
    refused("Table.snapshot_by_name", "a table has one line of versions; use snapshot_by_id"),
    refused("Table.sort_order", "sort the rows with Table.cluster(by)"),
    refused("Table.sort_orders", "sort the rows with Table.cluster(by)"),
    refused("Table.spec", "use Table.partition_by"),
    refused("Table.specs", "use Table.partition_by"),
    refused("Table.to_bodo", "use scan().to_arrow()"),
    refused("Table.to_daft", "use scan().to_arrow()"),
    refused("Table.transaction", "use table.table.transaction(), a transaction of tablefmt"),
    refused("Table.update_sort_order", "sort the rows with Table.cluster(by)"),
    refused("Table.update_spec", "overwrite with overwrite_schema=True and partition_by="),
    refused("Table.update_statistics", "bounds are written with the files"),
)

_SCAN = (
    same("DataScan.to_arrow", "Scan.to_arrow()"),
    same("DataScan.to_arrow_batch_reader", "Scan.to_reader()"),
    *(
        unused(f"DataScan.{name}(dictionary_columns)", "columns are plain")
        for name in ("to_arrow", "to_arrow_batch_reader")
    ),
    same("DataScan.to_pandas", "Scan.to_pandas()"),
    same("DataScan.to_polars", "Scan.to_polars()"),
    same("DataScan.count", "Scan.count()"),
    same("DataScan.filter", "scan(where=)"),
    same("DataScan.select", "scan(columns=)"),
    same("DataScan.snapshot", "Scan.version"),
    same("DataScan.projection", "Scan.schema", "an Arrow schema"),
    refused("DataScan.plan_files", "use Scan.files()"),
    refused("DataScan.partition_filters", "use Scan.explain()"),
    refused("DataScan.to_duckdb", "use tablefmt.duckdb.relation(uri)"),
    refused("DataScan.to_ray", "use to_arrow()"),
    refused("DataScan.update", "call scan() with other arguments"),
    refused("DataScan.use_ref", "use scan(snapshot_id=…)"),
    refused("DataScan.with_case_sensitive", _CASE),
)

_INSPECT = (
    same("InspectTable.snapshots", "Table.snapshots()", "without version 0"),
    same("InspectTable.history", "Table.history()"),
    same("InspectTable.files", "scan(version=).files()", "with tablefmt's columns"),
    same("InspectTable.data_files", "scan(version=).files()", "with tablefmt's columns"),
    same("InspectTable.partitions", "scan(version=).partitions()", "with tablefmt's columns"),
    refused("InspectTable.partitions(case_sensitive)", _CASE),
    *(
        refused(f"InspectTable.{name}", _MANIFESTS)
        for name in (
            *("all_data_files", "all_delete_files", "all_files", "all_manifests", "delete_files"),
            *("entries", "manifests", "metadata_log_entries"),
        )
    ),
    refused("InspectTable.refs", "a table has one line of versions"),
)

ROWS: tuple[Row, ...] = (*_CATALOG, *_TABLE, *_SCAN, *_INSPECT)

NAMES = Names("pyiceberg", ROWS)
