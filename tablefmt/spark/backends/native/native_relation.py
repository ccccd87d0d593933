"""Make native Spark relations of a table's files. Spark reads the files, tablefmt prunes them.

On a local disk, Spark must not open links, pipes and folders: Hadoop follows links, and blocks on a
pipe. When Spark plans a scan, PlainFiles.java checks each file, and calls this module for the
error.

Spec: DAT-4, DAT-5, DAT-7, DEL-4, STO-2.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.data.file_verification import first_line
from tablefmt.errors import CorruptDataError, StoreError, TablefmtError, UnsupportedFeatureError
from tablefmt.expressions.ddl import CURRENT_DEFAULT, EXISTS_DEFAULT, say_values, to_spark_json
from tablefmt.expressions.file_pruning import may_match
from tablefmt.expressions.predicate import Predicate, all_of
from tablefmt.expressions.sql_to_predicate import parse_conjuncts
from tablefmt.model.import_layouts import has_own_names
from tablefmt.model.name_matching import folded
from tablefmt.model.partition_transforms import declared
from tablefmt.model.schema import Schema, physical
from tablefmt.session.transaction_snapshot import live_rows
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.spark.backends.native.hadoop_root import hadoop_root
from tablefmt.spark.backends.native.relation_columns import (
    Groups,
    partition_groups,
    replaced_name,
    without_variables,
)
from tablefmt.spark.jvm import java_classes
from tablefmt.spark.pyspark_objects import (
    DataFrame,
    JavaObject,
    Session,
    SessionCache,
    java_class,
    java_rows,
    java_session,
)
from tablefmt.spark.runtime.failures import FAILED, answered, marked_for_jvm
from tablefmt.store.local_store import LocalStore
from tablefmt.store.object_store import KeyNotFoundError, Store


def connect_plain_files(spark: Session) -> None:
    """Connect PlainFiles.java of a classic session to `check_plain`, once."""
    java_classes.cached_in_jvm(spark, "plain files", lambda: _connected(spark))


def _connected(spark: Session) -> bool:
    answer = java_classes.callback(spark, lambda request: answered(check_plain, *list(request)))
    java_classes.new_instance(spark, "PlainFiles").connect(answer)
    return True


def check_plain(root: str, key: str) -> None:
    """Check that a key is a regular file, with the errors of a read by Arrow.

    Args:
        root: the table's root on a local disk.
        key: the key of a data file. Spark itself reports a missing file.

    Raises:
        CorruptDataError: DAT-5.
    """
    try:
        LocalStore(root).size(key)
    except KeyNotFoundError:
        return
    except StoreError as error:
        first = first_line(error)
        raise CorruptDataError(f"it cannot be read: {first}", key=key, rule="DAT-5") from None


READ_OPTIONS = {
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    # A missing or damaged file fails the query, whatever the session's settings are.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "parquet.page.verify-checksum.enabled": "true",
}

POSITION = "_tmp_metadata_row_index"
"""Name of the column in which Spark's reader stores row positions, i.e. `_metadata.row_index`."""

DELETED_TASK_BYTES = 4 << 20
"""Most bytes of deletion vectors that travel with every task. More are broadcast to executors."""

DELETED_BITS_BYTES = 64 << 20
"""Most bytes of bitmaps with one bit per row that an executor holds, for files with deleted rows.

Above that, only pages of 4,096 rows with at least one deleted row have bits.
"""

RELATIONS_KEPT = 16
"""Number of snapshots of a context with a cached relation. Building one takes 100 JVM calls."""

_IN_EVERY_FILE = "tablefmt.in_every_file"
"""Metadata key of a column that every file must have. SnapshotFormat rejects files without it."""

_PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
_NO_COLUMNS = '{"type":"struct","fields":[]}'
_BREAK = "\n"
_JOINED = 1 << 16
"""Number of files with lines that are joined at once: an Arrow string is limited to 2 GiB."""

_log = logging.getLogger(__name__)
_relations: SessionCache[JavaObject] = SessionCache(RELATIONS_KEPT)


@dataclass(frozen=True, slots=True)
class Files:
    """Files to scan."""

    identity: str
    """Identifies these files of this table, and nothing else."""
    columns: pa.Table
    """One row per file, with ADD-1's columns: `path`, `size`, bounds, …"""
    schema: Schema
    partition_ids: frozenset[int]
    """Fields that partition every file."""
    written_by: frozenset[int] | None = None
    """Fields that partition new files, if they may be others (EVO-1)."""
    groups: Groups | None = None
    """None: groups by partition values."""
    matching: Callable[[Predicate], NDArray[np.int64]] | None = None
    """Returns the ids of files that may have rows for which a predicate is TRUE.

    None: `columns` has the bounds for that.
    """
    vectors: Callable[[pa.Table], pa.Table] | None = None
    """Adds `vector`, the deleted rows, to `columns`. None: `columns` has it if it is needed."""
    positions: bool = False
    """True adds column POSITION, the row's position in its file."""
    of_statement: bool = False
    """True for a scan by a statement that changes rows: Spark generates code for it only once."""
    otherwise: Callable[[], DataFrame] | None = None
    """Returns the rows of files that Spark's reader cannot map (IMP-4), for reads of table names.
    """


def snapshot_files(store: Store, snapshot: Snapshot, *, asked: bool = False) -> Files:
    """Return the files of one version. `asked`: the user asked for it by number or time."""
    table = snapshot_identity(store, snapshot.table_id, asked=asked)
    return Files(
        identity=f"{table}@{snapshot.version}",
        columns=snapshot.files_with(("path", "size", "rows")),
        schema=snapshot.schema,
        partition_ids=snapshot.partition_ids,
        written_by=frozenset(snapshot.metadata.partition_by),
        matching=snapshot.ids_matching,
        vectors=snapshot.with_vectors,
    )


def snapshot_identity(store: Store, table_id: str, *, asked: bool = False) -> str:
    """Return the identity of a table. `asked` marks a version that the user asked for."""
    return f"{store.identity}#{table_id}{'!' if asked else ''}"


def to_dataframe(spark: Session, store: Store, files: Files, *, keep: bool = False) -> DataFrame:
    """Return a DataFrame over exactly these files, with columns under their logical names.

    Args:
        spark: a classic session.
        store: the store of the files.
        files: the files.
        keep: True caches the relation, for a whole snapshot that is likely to be read again.

    Raises:
        UnsupportedFeatureError: Hadoop has no file system for the store, or the JVM cannot be used.
    """
    from pyspark.sql import DataFrame

    relation = (kept_relation if keep else to_relation)(spark, store, files)
    return DataFrame(java_session(spark).baseRelationToDataFrame(relation), spark)


def kept_relation(
    spark: Session,
    store: Store,
    files: Files,
    uri: str | None = None,
    storage: Mapping[str, str] | None = None,
) -> JavaObject:
    """Return `to_relation`, cached while it is among the last RELATIONS_KEPT used."""
    root = hadoop_root(spark, store)
    # The scheme of a bucket identifies its credentials.
    place = (root.scheme, root.authority, root.path)
    given = json.dumps(storage, sort_keys=True)
    key = (files.identity, *place, uri, given)
    return _relations.get(spark, key, lambda: to_relation(spark, store, files, uri, storage))


def to_relation(
    spark: Session,
    store: Store,
    files: Files,
    uri: str | None = None,
    storage: Mapping[str, str] | None = None,
) -> JavaObject:
    """Return a relation of the JVM over exactly these files, with columns under logical names.

    Args:
        spark: a classic session.
        store: the store of the files.
        files: the files.
        uri: the location that INSERT into the relation writes to. None: INSERT is rejected.
        storage: passed back to Python by an INSERT.

    Raises: as `to_dataframe`.
    """
    plain = not has_own_names(files.columns)
    if not plain and files.otherwise is None:
        raise _not_plain(store)
    root = hadoop_root(spark, store)
    _check_names(files.schema)
    given = None if storage is None else _java_map(storage)
    # Without the rule, Spark does not push conditions that mix partition and other columns.
    java_classes.add_rule(spark)
    connect_plain_files(spark)
    described = without_variables(to_spark_json(files.schema))
    columns = java_classes.java_schema(json.dumps(described))
    partitions = java_classes.java_schema(group_columns(files))
    by = files.partition_ids if files.written_by is None else files.written_by
    count, size = files.columns.num_rows, pc.sum(files.columns["size"]).as_py() or 0
    index = java_classes.new_instance(
        spark,
        "SnapshotFileIndex",
        files.identity,
        root.scheme,
        root.authority,
        root.path,
        java_classes.long(count),
        java_classes.long(size),
        java_classes.long(live_rows(files.columns)),
        columns,
        partitions,
    )
    if plain:
        index.setSurvivors(java_classes.callback(spark, survivors(files)))
    _leave_out(spark, index, files)
    if files.of_statement:
        index.setOfStatement()
    if files.positions:
        columns = columns.add(POSITION, "long", True)
    relation = java_classes.new_instance(
        spark,
        "SnapshotRelation",
        index,
        columns,
        _format(spark, files, columns),
        java_classes.scala_map({**READ_OPTIONS, **root.settings}),
        java_session(spark),
        uri,
        given,
        java_classes.string_array(
            spark, [declared(f, files.schema) for f in files.schema.with_hidden if f.id in by]
        ),
        _with_defaults(files.schema, columns),
    )
    if not plain and files.otherwise is not None:
        relation.setRows(java_rows(files.otherwise()))
    return relation


def _java_map(texts: Mapping[str, str]) -> JavaObject:
    held = java_class("java.util.HashMap")()
    for name, text in texts.items():
        held.put(name, text)
    return held


def _not_plain(store: Store) -> UnsupportedFeatureError:
    """Return the error for imported files whose columns Spark's own reader does not map (IMP-4)."""
    return UnsupportedFeatureError(
        f"the table at {store.uri} has imported files with column names of their own, or outside "
        "its folder, which Spark's reader cannot map (rule IMP-4). Set spark.tablefmt.backend to "
        "arrow.",
        ["spark:imported"],
    )


def _check_names(schema: Schema) -> None:
    """Check that Spark's reader can read every column. Raises UnsupportedFeatureError."""
    for name in schema.names:
        if folded(name) == POSITION:
            raise UnsupportedFeatureError(
                f"Spark's reader reserves the column name {name!r}; rename the column, or read the "
                "table through Arrow",
                ["spark:column-name"],
            )
    replaced = replaced_name(schema)
    if replaced is not None:
        raise UnsupportedFeatureError(
            f"Hadoop would replace a variable in the column name {replaced!r}; read the table "
            "with tablefmt.spark.read() or tablefmt.open(), which go through Arrow",
            ["spark:column-name"],
        )


def _leave_out(spark: Session, index: JavaObject, files: Files) -> None:
    """Pass the deleted rows to the index (DEL-4)."""
    known = "vector" in files.columns.column_names
    touched = pc.greater(files.columns["deleted"], 0)
    if known:
        touched = files.columns["vector"].is_valid()
    places = pc.indices_nonzero(touched)
    if len(places) == 0:
        return
    some = files.columns.filter(touched)
    lines = zip(places.to_pylist(), some["rows"].to_pylist(), strict=True)

    def packed(_: str) -> bytes | str:
        try:
            vectors = (files.vectors(some) if files.vectors and not known else some)["vector"]
        except TablefmtError as error:
            return FAILED + marked_for_jvm(error)
        assert vectors.null_count == 0, "each file has deleted rows"
        return b"".join(vectors.to_pylist())

    rows = java_classes.new_instance(
        spark,
        "DeletedRows",
        "\n".join(f"{place}\t{rows}" for place, rows in lines),
        java_classes.long(DELETED_TASK_BYTES),
        java_classes.long(DELETED_BITS_BYTES),
    )
    # A statement that needs only the table's columns never calls this.
    rows.setPacked(java_classes.callback(spark, packed))
    index.setDeletedRows(rows)


def _with_defaults(schema: Schema, columns: JavaObject) -> JavaObject:
    """Return the columns with the defaults that INSERT needs (SCH-7)."""
    if all(field.default is None for field in schema.fields):
        return columns
    described = say_values(to_spark_json(schema), schema, CURRENT_DEFAULT)
    return java_classes.java_schema(json.dumps(described))


def _in_every_file(files: Files) -> frozenset[int]:
    """Return the partition columns with inexact values in the log (VAL-2), which files must have.

    In a file without the column, all rows have the log's value (DAT-8). Spark's reader does not
    support that. It rejects the file, as for a missing column that is NOT NULL.
    """
    grouped = {column["name"] for column in json.loads(group_columns(files))["fields"]}
    named = {f.id for f in files.schema.fields if f.name not in grouped}
    return files.partition_ids & named


def _format(spark: Session, files: Files, columns: JavaObject) -> JavaObject:
    """Return the file format: Spark's Parquet, or one with physical names and initial values.

    Spec: SCH-3, SCH-7.
    """
    needed = _in_every_file(files)
    named = physical(files.schema)
    initial = [column for column in named.fields if column.initial is not None]
    if named == files.schema and not initial and not needed:
        return java_class(_PARQUET)()
    described = say_values(to_spark_json(named), named, EXISTS_DEFAULT)
    for column, one in zip(named.fields, described["fields"], strict=True):
        if column.id in needed:
            one["metadata"].pop(EXISTS_DEFAULT, None)
            one["metadata"][_IN_EVERY_FILE] = True
    inside = java_classes.java_schema(json.dumps(described))
    return java_classes.new_instance(spark, "SnapshotFormat", columns, inside)


def group_columns(files: Files) -> str:
    """Return the columns with one value per file, in Spark's JSON form of a StructType."""
    # The columns do not depend on the choice of files.
    groups = files.groups or _groups_of(files, files.columns.slice(0, 1))
    return groups.columns if groups else _NO_COLUMNS


def survivors(files: Files) -> Callable[[str], bytes | None]:
    """Return the callback of the JVM that maps a condition to the files to read, as `file_lines`.

    The condition is SQL text, "" for none. The callback returns None if the condition prunes no
    file, for whatever reason.
    """
    prune = pruner(files)

    def listed(text: str) -> bytes | None:
        if not text:
            return file_lines(files, None)
        try:
            mask = prune(text)
            return None if mask is None else file_lines(files, mask)
        except Exception:
            # The JVM calls this, so no caller could handle an error. Reading all files is correct.
            _log.warning("no files could be pruned, so all are read", exc_info=True)
            return None

    return listed


def pruner(files: Files) -> Callable[[str], NDArray[np.bool_] | None]:
    """Return a function that maps condition text to one flag per file: True if it must be read.

    The text has logical names, and times in UTC. The function returns None if it prunes no file.
    """

    def prune(text: str) -> NDArray[np.bool_] | None:
        understood, _ = parse_conjuncts(text, files.schema, "UTC")
        if not understood:
            return None
        predicate = all_of(understood)
        if files.matching is None:
            return may_match(predicate, files.columns, files.partition_ids)
        mask = np.zeros(files.columns.num_rows, np.bool_)
        mask[np.searchsorted(files.columns["id"].to_numpy(), files.matching(predicate))] = True
        return mask

    return prune


def file_lines(files: Files, mask: NDArray[np.bool_] | None) -> bytes:
    """Return the flagged files, or all, in the form that FileList.java reads.

    The lines are: the number of groups, then one line per group with its values, then one line per
    file. The line of a file has its index, size, group and path, separated by tabs. Paths contain
    no tabs (KEY-2).
    """
    marked = np.ones(files.columns.num_rows, bool) if mask is None else mask
    places = pa.array(np.flatnonzero(marked))
    if len(places) == 0:
        return b"0"
    chosen = files.columns if marked.all() else files.columns.filter(pa.array(marked))
    groups = _groups_of(files, chosen, places)
    of_file = groups.of_file.cast(pa.string()) if groups else pa.scalar("0")
    path, size = (chosen[name].combine_chunks() for name in ("path", "size"))
    numbers = (places.cast(pa.string()), size.cast(pa.string()))
    lines = pc.binary_join_element_wise(*numbers, of_file, path, "\t")
    text = [str(groups.values.count(_BREAK) + 1), groups.values] if groups else ["0"]
    for at in range(0, len(lines), _JOINED):
        part = lines.slice(at, _JOINED)
        part = pa.ListArray.from_arrays([0, len(part)], part)
        text.append(pc.binary_join(part, _BREAK)[0].as_py())
    return _BREAK.join(text).encode()


def _groups_of(files: Files, chosen: pa.Table, places: pa.Array | None = None) -> Groups | None:
    """Return the groups of the chosen files, which have the indices `places`."""
    given = files.groups
    if given is None:
        return partition_groups(chosen, files.schema, files.partition_ids)
    assert places is not None
    of_file = given.of_file.take(places).dictionary_encode()
    lines = pa.array(given.values.split(_BREAK), pa.string()).take(of_file.dictionary)
    return Groups(given.columns, _BREAK.join(lines.to_pylist()), of_file.indices)
