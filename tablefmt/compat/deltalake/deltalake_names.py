"""The names of delta-rs, and what each is here. The table on its migration page."""

from __future__ import annotations

from tablefmt.compat.translation import Names, Row, refused, same, unused

_WRITES = (
    *("DeltaTable.delete", "DeltaTable.update", "DeltaTable.merge", "write_deltalake"),
    *("TableOptimizer.compact", "TableOptimizer.z_order"),
)
_COMMITS = (
    *_WRITES,
    *("DeltaTable.create", "DeltaTable.restore", "DeltaTable.vacuum", "convert_to_deltalake"),
    *("TableAlterer.add_columns", "TableAlterer.add_constraint", "TableAlterer.add_feature"),
    *("TableAlterer.drop_column_not_null", "TableAlterer.drop_constraint"),
    *("TableAlterer.set_column_metadata", "TableAlterer.set_table_description"),
    *("TableAlterer.set_table_name", "TableAlterer.set_table_properties"),
)
_LAYOUTS = ("TableOptimizer.compact", "TableOptimizer.z_order")
_SPILLS = ("max_spill_size", "max_temp_directory_size")

_FUNCTIONS = (
    same("DeltaTable", "tablefmt.open(uri)", "`version=` reads that version; 0 is refused"),
    *(
        unused(f"DeltaTable({name})", "the log is read as needed")
        for name in ("without_files", "log_buffer_size", "skip_stats")
    ),
    same(
        "write_deltalake",
        "tablefmt.write(data, uri, mode=)",
        "the first write of a new table is version 1",
    ),
    unused("write_deltalake(target_file_size)", "set the property targetFileSize"),
    same("convert_to_deltalake", 'tablefmt.import_table(uri, "parquet")'),
    unused("convert_to_deltalake(partition_by)", "the columns come from the folder names"),
    unused("convert_to_deltalake(collect_stats)", "bounds come from the footers of the files"),
    refused(
        "convert_to_deltalake(configuration)", "set properties with alter.set_table_properties"
    ),
    same("QueryBuilder", "tablefmt.duckdb.attach(connection, name, uri)", "the SQL is DuckDB's"),
    unused("QueryBuilder(session_config)", "DuckDB has settings of its own"),
    same("QueryBuilder.register", "tablefmt.duckdb.attach(connection, name, uri)"),
    same("QueryBuilder.execute", "connection.execute(sql)", "a reader of record batches"),
    refused("TableFeatures", "features are enabled as they are needed; leave add_feature out"),
    refused("init_tracing", "use Python's logging, with the logger tablefmt"),
    refused("rust_core_version", "use tablefmt.__version__"),
    refused("enable_nanosecond_timestamps", "times have microseconds; cast them before the write"),
)

_TABLE = (
    same("DeltaTable.version", "Table.version"),
    same("DeltaTable.schema", "Table.schema", "an object with `to_arrow()`, as in delta-rs"),
    same("DeltaTable.metadata", "Table.properties, partition_by, comment, id"),
    same("DeltaTable.protocol", "`tablefmt describe`", "features of tablefmt; no version numbers"),
    same("DeltaTable.table_uri", "Table.uri"),
    same("DeltaTable.is_deltatable", "tablefmt.exists(uri)"),
    same("DeltaTable.create", "tablefmt.create(uri, schema)", '`mode="append"` opens the table'),
    unused("DeltaTable.create(raise_if_key_not_exists)", "unknown properties are always refused"),
    same("DeltaTable.load_as_version", "scan(version=), scan(timestamp=)", "0 is refused"),
    same("DeltaTable.update_incremental", "Table.refresh()"),
    same("DeltaTable.count", "Table.count()", "exact"),
    same("DeltaTable.scan", "scan(columns=, where=).to_reader()"),
    same("DeltaTable.to_pyarrow_table", "Table.to_arrow(columns=, where=)"),
    refused("DeltaTable.to_pyarrow_table(filesystem)", "give storage_options to DeltaTable"),
    same("DeltaTable.to_pandas", "Table.to_pandas(columns=, where=)"),
    refused("DeltaTable.to_pandas(filesystem)", "give storage_options to DeltaTable"),
    same("DeltaTable.to_pyarrow_dataset", "Table.to_reader()", "the dataset is in memory"),
    *(
        refused(f"DeltaTable.to_pyarrow_dataset({name})", "use DeltaTable.scan")
        for name in ("filesystem", "parquet_read_options", "schema", "as_large_types")
    ),
    same("DeltaTable.file_uris", "scan(where=).files()"),
    same("DeltaTable.partitions", "`tablefmt partitions`"),
    same("DeltaTable.get_add_actions", "scan().files()", "without bounds of columns and times"),
    same("DeltaTable.history", "Table.history(limit)", "a list of dicts, as in delta-rs"),
    same("DeltaTable.load_cdf", "Table.changes(...)", "you enable nothing"),
    refused(
        "DeltaTable.load_cdf(allow_out_of_range)",
        "compare the range with version() before the call",
    ),
    same("DeltaTable.delete", "Table.delete(where)"),
    same("DeltaTable.update", "Table.update(set, where)"),
    refused("DeltaTable.update(error_on_type_mismatch)", "use try_cast in the values"),
    same("DeltaTable.merge", "Table.merge(source, on)", "default aliases: source and target"),
    refused("DeltaTable.merge(error_on_type_mismatch)", "use try_cast in the values"),
    unused("DeltaTable.merge(streamed_exec)", "sources larger than memory go to disk"),
    *(unused(f"DeltaTable.merge({name})", "large sources go to disk") for name in _SPILLS),
    same("DeltaTable.optimize", "Table.compact(), Table.cluster(by)"),
    same("DeltaTable.alter", "Table.alter"),
    same("DeltaTable.vacuum", "Table.vacuum(retention=, dry_run=)", "a dry run by default"),
    unused("DeltaTable.vacuum(full)", "every vacuum considers all files"),
    refused("DeltaTable.vacuum(keep_versions)", "use a longer retention"),
    same("DeltaTable.restore", "Table.restore(version=, timestamp=)", "0 is refused"),
    refused("DeltaTable.restore(ignore_missing_files)", "choose a version that is still kept"),
    unused("DeltaTable.restore(protocol_downgrade_allowed)", "a restore changes no features"),
    same("DeltaTable.transaction_version", "application=(id, version)"),
    same("DeltaTable.create_checkpoint", "Table.checkpoint()"),
    same("DeltaTable.cleanup_metadata", "Table.expire_log(dry_run=False)"),
    refused("DeltaTable.compact_logs", "call Table.maintain()"),
    refused("DeltaTable.create_write_transaction", "use Table.transaction()"),
    refused("DeltaTable.deletion_vectors", "reads leave deleted rows out; see scan().files()"),
    refused("DeltaTable.generate", 'use Table.export("delta") or Table.export("iceberg")'),
    refused("DeltaTable.repair", "use Table.verify(deep=True), which reports damage"),
    refused("DeltaTable.table_config", "there is nothing to configure"),
)

_BUILDERS = (
    same("TableMerger.execute", "MergeBuilder.execute()"),
    same("TableMerger.when_matched_update", "when_matched_update(set, condition)"),
    same("TableMerger.when_matched_update_all", "when_matched_update_all(condition)"),
    same("TableMerger.when_matched_delete", "when_matched_delete(condition)"),
    same("TableMerger.when_not_matched_insert", "when_not_matched_insert(values, condition)"),
    same("TableMerger.when_not_matched_insert_all", "when_not_matched_insert_all(condition)"),
    same(
        "TableMerger.when_not_matched_by_source_update",
        "when_not_matched_by_source_update(set, condition)",
    ),
    same(
        "TableMerger.when_not_matched_by_source_delete",
        "when_not_matched_by_source_delete(condition)",
    ),
    same("TableOptimizer.compact", "Table.compact(where=, target_file_size=)"),
    same("TableOptimizer.z_order", "Table.cluster(by, where=, target_file_size=)"),
    *(
        unused(f"{call}({name})", "memory and threads are bounded already")
        for call in _LAYOUTS
        for name in ("max_concurrent_tasks", *_SPILLS)
    ),
    *(
        refused(f"{call}(min_commit_interval)", "use Table.compact(commit_every=)")
        for call in _LAYOUTS
    ),
    same("TableAlterer.add_columns", "alter.add_column(name, type)", "one commit for each column"),
    same("TableAlterer.add_constraint", "alter.add_constraint(name, condition)"),
    same("TableAlterer.drop_constraint", "alter.drop_constraint(name)"),
    same("TableAlterer.drop_column_not_null", "alter.drop_not_null(name)"),
    same("TableAlterer.set_table_description", "alter.set_comment(text)"),
    same("TableAlterer.set_table_properties", "alter.set_properties({...})", "`delta.` names too"),
    unused(
        "TableAlterer.set_table_properties(raise_if_not_exists)",
        "unknown properties are always refused",
    ),
    same("TableAlterer.set_column_metadata", "alter.set_comment(text, column=)", "only `comment`"),
    same("TableAlterer.set_table_name", "the property user.name"),
    refused("TableAlterer.add_feature", "features are enabled as they are needed"),
)

_ARGUMENTS = (
    *(
        unused(f"{call}(writer_properties)", "encodings are chosen from the data")
        for call in _WRITES
    ),
    *(
        unused(f"{call}(post_commithook_properties)", "checkpoints follow checkpointInterval")
        for call in _COMMITS
    ),
    unused("DeltaTable.vacuum(commit_properties)", "a vacuum's entry has no metadata of a user"),
    unused("DeltaTable.create(commit_properties)", "the first entry has no metadata of a user"),
    refused("convert_to_deltalake(commit_properties)", "the import has no metadata of a user"),
    same("CommitProperties", "user_metadata=, application=", "writes are applied once"),
    unused("CommitProperties(max_commit_retries)", "commits retry until `deadline`"),
)

ROWS: tuple[Row, ...] = (*_FUNCTIONS, *_TABLE, *_BUILDERS, *_ARGUMENTS)

NAMES = Names("deltalake", ROWS)
