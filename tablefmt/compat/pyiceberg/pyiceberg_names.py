"""The names of PyIceberg, and what each is here."""

from __future__ import annotations

from tablefmt.compat.translation import Names, Row, refused, same, unused

_CASE = "names of columns are compared without case"
_BRANCH = "a table has one line of versions; leave it out"
_LINE = "a table has one line of versions; for a trial, use Table.clone(uri, shallow=True)"
_AGE = "versions expire by age: use older_than, and keep others by tags"
_MANIFESTS = "the log has no manifests; see scan().files()"
_SCHEMAS = "read an older version to see its columns: scan(snapshot_id=…)"
_VIEW = "there are no views without Spark's catalog"
_EVERY = ("append", "overwrite", "delete", "upsert", "dynamic_partition_overwrite")

_CATALOG = (
    same("load_catalog", "none", "tables are folders below `warehouse`; no service"),
    same("Catalog.create_table", "tablefmt.create(uri, schema)"),
    same("Catalog.create_table_if_not_exists", "tablefmt.create(..., exist_ok=True)"),
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
    same("Catalog.drop_namespace", "none", "a namespace without tables needs no folder"),
    same("Catalog.namespace_exists", "none", "true if it has tables"),
    same("Catalog.list_namespaces", "none", "those with tables"),
    same("Catalog.list_tables", "none", "folders with a table"),
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
    same(
        "Catalog.create_table_transaction",
        "tablefmt.write(data, uri)",
        "up to three commits: the table, changes of it, and its rows",
    ),
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
    same("Table.overwrite", "Table.overwrite(data)", "with a filter, a Table.merge"),
    same("Table.dynamic_partition_overwrite", "Table.overwrite(data, dynamic_partitions=True)"),
    same("Table.delete", "Table.delete(where)"),
    same("Table.upsert", "Table.merge(source, on)", "by `join_cols`, or the identifier fields"),
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
    same("Table.update_schema", "Table.alter", "one commit for all changes"),
    same(
        "Table.update_schema(allow_incompatible_changes)",
        "alter.set_not_null",
        "for required columns, whose rows are checked",
    ),
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
    same("Table.maintenance", "Table.maintain(), vacuum()"),
    same("Table.manage_snapshots", "alter.set_tag, alter.drop_tag, restore"),
    refused("Table.metadata_location", "the log is below the table's folder"),
    refused("Table.name_mapping", "columns have ids"),
    same("Table.refs", "Table.tags()", "and `main`, the newest version"),
    refused("Table.schemas", _SCHEMAS),
    same("Table.snapshot_by_name", "Table.tags()"),
    refused("Table.sort_order", "sort the rows with Table.cluster(by)"),
    refused("Table.sort_orders", "sort the rows with Table.cluster(by)"),
    refused("Table.spec", "use Table.partition_by"),
    refused("Table.specs", "use Table.partition_by"),
    refused("Table.to_bodo", "use scan().to_arrow()"),
    refused("Table.to_daft", "use scan().to_arrow()"),
    same("Table.transaction", "Table.transaction()", "appends, or changes of the metadata"),
    same("Table.update_sort_order", "alter.set_clustering(by)"),
    refused("Table.update_sort_order(case_sensitive)", _CASE),
    same("Table.update_spec", "alter.set_partitioning(fields)", "files keep their partitioning"),
    refused("Table.update_spec(case_sensitive)", _CASE),
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
    same("DataScan.plan_files", "Scan.files()"),
    refused("DataScan.partition_filters", "use Scan.explain()"),
    same("DataScan.to_duckdb", "tablefmt.duckdb.relation(uri)"),
    refused("DataScan.to_ray", "use to_arrow()"),
    refused("DataScan.update", "call scan() with other arguments"),
    same("DataScan.use_ref", "scan(version=tag)"),
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
    same("InspectTable.refs", "Table.tags()", "and `main`, the newest version"),
)

_UPDATES = (
    same("UpdateSchema.add_column", "alter.add_column(name, type)"),
    same("UpdateSchema.rename_column", "alter.rename_column(name, to)"),
    same("UpdateSchema.delete_column", "alter.drop_column(name)"),
    same("UpdateSchema.make_column_optional", "alter.drop_not_null(name)"),
    same("UpdateSchema.update_column", "alter.widen_column, set_not_null, set_comment"),
    same("UpdateSchema.move_first", "alter.move_column(name, first=True)"),
    same("UpdateSchema.move_after", "alter.move_column(name, after=)"),
    same("UpdateSchema.move_before", "alter.move_column(name, after=)", "columns of the table"),
    same("UpdateSchema.set_default_value", "alter.set_default(name, value)"),
    same("UpdateSchema.union_by_name", "append(merge_schema=True)"),
    unused("UpdateSchema.union_by_name(format_version)", "there is one version of the format"),
    same("UpdateSchema.commit", "none"),
    refused("UpdateSchema.assign_new_column_id", "ids are assigned by the table"),
    refused("UpdateSchema.case_sensitive", _CASE),
    refused("UpdateSchema.set_identifier_fields", "give join_cols to upsert"),
    same("ManageSnapshots.create_tag", "alter.set_tag(name, version=, retain=)"),
    same("ManageSnapshots.remove_tag", "alter.drop_tag(name)"),
    same("ManageSnapshots.rollback_to_snapshot", "Table.restore(version=)", "a new commit"),
    same("ManageSnapshots.rollback_to_timestamp", "Table.restore(timestamp=)", "a new commit"),
    same("ManageSnapshots.set_current_snapshot", "Table.restore(version=)", "a new commit"),
    same("ManageSnapshots.commit", "none"),
    refused("ManageSnapshots.create_branch", _LINE),
    refused("ManageSnapshots.remove_branch", _LINE),
    same("MaintenanceTable.expire_snapshots", "Table.vacuum(dry_run=False)"),
    same("ExpireSnapshots.older_than", "vacuum(retention=)"),
    same("ExpireSnapshots.commit", "none"),
    refused("ExpireSnapshots.by_id", _AGE),
    refused("ExpireSnapshots.by_ids", _AGE),
    same("UpdateSpec.add_field", 'alter.set_partitioning(["bucket(16, id) AS name"])'),
    same("UpdateSpec.add_identity", "alter.set_partitioning(fields)"),
    same("UpdateSpec.remove_field", "alter.set_partitioning(fields)"),
    same("UpdateSpec.rename_field", "alter.set_partitioning(fields)", "fields of transforms"),
    same("UpdateSpec.commit", "none"),
    same("UpdateSortOrder.asc", "alter.set_clustering(by)"),
    refused("UpdateSortOrder.desc", "rows are sorted ascending; use asc"),
    same("UpdateSortOrder.commit", "none"),
    same("Transaction.set_properties", "alter.set_properties"),
    same("Transaction.remove_properties", "alter.unset_properties"),
    same("Transaction.update_schema", "Table.alter"),
    refused("Transaction.update_schema(case_sensitive)", _CASE),
    same("Transaction.update_spec", "alter.set_partitioning(fields)"),
    same("Transaction.append", "Transaction.append(data)"),
    refused("Transaction.append(branch)", _BRANCH),
    same("Transaction.commit_transaction", "Transaction.commit()"),
    *(
        refused(f"Transaction.{name}", f"use Table.{name}, which is a commit of its own")
        for name in (
            *("overwrite", "delete", "upsert", "dynamic_partition_overwrite", "add_files"),
            *("update_sort_order", "update_statistics"),
        )
    ),
    refused("Transaction.update_location", "the folder of a table is its address"),
    refused("Transaction.update_snapshot", "use append"),
    refused("Transaction.upgrade_table_version", "features are enabled as they are needed"),
    refused("Transaction.table_metadata", "use Table.table"),
)

_MODULE = (refused("StaticTable", 'import the table: tablefmt.import_table(uri, "iceberg")'),)

ROWS: tuple[Row, ...] = (*_CATALOG, *_TABLE, *_SCAN, *_INSPECT, *_UPDATES, *_MODULE)

NAMES = Names("pyiceberg", ROWS)
