"""The names of Delta's Python library for Spark, and what each is here."""

from __future__ import annotations

from tablefmt.compat.translation import Names, Row, refused, same, unused

_TABLE = (
    same("DeltaTable.forPath", "tablefmt.spark.open(spark, path)"),
    same("DeltaTable.forName", "tablefmt.spark.open(spark, name)", "in a classic session"),
    same("DeltaTable.isDeltaTable", "tablefmt.exists(uri)"),
    same("DeltaTable.convertToDelta", 'tablefmt.import_table(uri, "parquet")'),
    unused("DeltaTable.convertToDelta(partitionSchema)", "the columns come from the folder names"),
    same("DeltaTable.create", "tablefmt.spark.create(spark, path, schema)"),
    same("DeltaTable.createIfNotExists", "create(..., exist_ok=True)", "of the same definition"),
    same("DeltaTable.replace", "REPLACE TABLE", "needs tableName"),
    same("DeltaTable.createOrReplace", "CREATE OR REPLACE TABLE", "needs tableName to replace"),
    same("DeltaTable.toDF", "SparkTable.to_df()"),
    same(
        "DeltaTable.alias",
        "merge(target_alias=)",
        "for merge and toDF; delete and update take plain column names",
    ),
    same("DeltaTable.delete", "SparkTable.delete(where)"),
    same("DeltaTable.update", "SparkTable.update(set, where)", "the order of arguments"),
    same("DeltaTable.merge", "SparkTable.merge(source, on)", "aliases of both sides as in Delta"),
    same("DeltaTable.history", "SparkTable.history(limit)", "Delta's columns, and more"),
    same("DeltaTable.detail", "DESCRIBE DETAIL"),
    same("DeltaTable.vacuum", "SparkTable.vacuum(retention=, dry_run=False)"),
    same("DeltaTable.optimize", "SparkTable.compact(), SparkTable.cluster(by)"),
    same("DeltaTable.restoreToVersion", "SparkTable.restore(version=)", "0 is refused"),
    same("DeltaTable.restoreToTimestamp", "SparkTable.restore(timestamp=)"),
    unused("DeltaTable.upgradeTableProtocol", "features are enabled as they are needed"),
    unused("DeltaTable.addFeatureSupport", "every table has the feature; others are refused"),
    refused("DeltaTable.dropFeatureSupport", "features cannot be dropped; copy the rows instead"),
    refused("DeltaTable.generate", 'use Table.export("delta") or Table.export("iceberg")'),
    same("DeltaTable.clone", "SparkTable.clone(into, shallow=, replace=)", "a path or a name"),
    same("DeltaTable.cloneAtVersion", "SparkTable.clone(into, version=)"),
    same("DeltaTable.cloneAtTimestamp", "SparkTable.clone(into, timestamp=)"),
)

_BUILDERS = (
    same("DeltaMergeBuilder.whenMatchedUpdate", "when_matched_update(set, condition)"),
    same("DeltaMergeBuilder.whenMatchedUpdateAll", "when_matched_update_all(condition)"),
    same("DeltaMergeBuilder.whenMatchedDelete", "when_matched_delete(condition)"),
    same("DeltaMergeBuilder.whenNotMatchedInsert", "when_not_matched_insert(values, condition)"),
    same("DeltaMergeBuilder.whenNotMatchedInsertAll", "when_not_matched_insert_all(condition)"),
    same(
        "DeltaMergeBuilder.whenNotMatchedBySourceUpdate",
        "when_not_matched_by_source_update(set, condition)",
    ),
    same(
        "DeltaMergeBuilder.whenNotMatchedBySourceDelete",
        "when_not_matched_by_source_delete(condition)",
    ),
    same("DeltaMergeBuilder.withSchemaEvolution", "merge(merge_schema=True)"),
    same("DeltaMergeBuilder.execute", "execute()", "a DataFrame of counts, as in Delta"),
    same("DeltaTableBuilder.tableName", "CREATE TABLE name"),
    same("DeltaTableBuilder.location", "CREATE TABLE … OPTIONS (path '…')"),
    same("DeltaTableBuilder.comment", "COMMENT"),
    same("DeltaTableBuilder.addColumn", "the schema as DDL text or StructType"),
    same(
        "DeltaTableBuilder.addColumn(generatedAlwaysAs)",
        "GENERATED ALWAYS AS (…)",
        "an expression as text, computed in UTC; an IdentityGenerator is refused",
    ),
    refused(
        "DeltaTableBuilder.addColumn(generatedByDefaultAs)", "compute the column before the write"
    ),
    same("DeltaTableBuilder.addColumns", "the schema as StructType"),
    same("DeltaTableBuilder.partitionedBy", "partition_by="),
    same("DeltaTableBuilder.clusterBy", "cluster_by="),
    same("DeltaTableBuilder.property", "properties=", "`delta.` names are translated or refused"),
    same("DeltaTableBuilder.execute", "tablefmt.spark.create(spark, path, schema)"),
    same("DeltaOptimizeBuilder.where", "compact(where=)"),
    same("DeltaOptimizeBuilder.executeCompaction", "SparkTable.compact()"),
    same("DeltaOptimizeBuilder.executeZOrderBy", "SparkTable.cluster(by)"),
    refused("IdentityGenerator", "compute the column before the write"),
    refused(
        "configure_spark_with_delta_pip",
        "create the session without Delta's extension and catalog, and call "
        "tablefmt.spark.register(spark)",
    ),
)

ROWS: tuple[Row, ...] = (*_TABLE, *_BUILDERS)

NAMES = Names("delta", ROWS)
