"""From files of a table to a native Spark relation: Spark plans and reads them, we prune them.

On a local disk Spark must not open links, pipes and folders: Hadoop follows links and waits for a
pipe. When a scan is planned, PlainFiles.java looks at each file, and asks here for the error.

Spec: DAT-4, DAT-5, DAT-7, DEL-4, STO-2.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

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
from tablefmt.model.name_matching import folded
from tablefmt.model.schema import Schema, physical
from tablefmt.session.transaction_snapshot import live_rows
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.spark.backends.native.relation_columns import (
    Groups,
    partition_groups,
    replaced_name,
    without_variables,
)
from tablefmt.spark.backends.native.s3a import s3_place
from tablefmt.spark.jvm import java_classes
from tablefmt.spark.pyspark_objects import DataFrame, Session, SessionCache, java_session, jvm_of
from tablefmt.spark.runtime.failures import FAILED, answered, hand_over
from tablefmt.store.local_store import LocalStore
from tablefmt.store.object_store import KeyNotFoundError, Store


def connect_plain_files(spark: Any) -> None:
    """Tell the JVM of a classic session, once, whom to ask."""
    java_classes.kept(spark, "plain files", lambda: _connected(spark))


def _connected(spark: Any) -> bool:
    answer = java_classes.callback(spark, lambda request: answered(check_plain, *list(request)))
    java_classes.new_instance(spark, "PlainFiles").connect(answer)
    return True


def check_plain(root: str, key: str) -> None:
    """Refuse a name that is no regular file, in the words of a read by Arrow.

    Args:
        root: of the table, on a local disk.
        key: of a data file. One that is missing is left to Spark.

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
    # A file that is missing or damaged stops the query, whatever the session says.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "parquet.page.verify-checksum.enabled": "true",
}

POSITION = "_tmp_metadata_row_index"
"""Spark's own reader makes a column of this name, and calls it `_metadata.row_index` elsewhere."""

DELETED_TASK_BYTES = 4 << 20
"""What may go with every task to tell rows that are gone; above it every executor gets it once."""

DELETED_BITS_BYTES = 64 << 20
"""What a bit for every row may take in each executor, for files of which rows are gone. Above it,
only pages of 4,096 rows of which one is gone have bits."""

RELATIONS_KEPT = 16
"""Snapshots of a context whose relation is built once: it takes a hundred calls into the JVM."""

_IN_EVERY_FILE = "tablefmt.in_every_file"
"""Says of a column, in its metadata, that a file which lacks it is refused; see SnapshotFormat."""

_NO_COLUMNS = '{"type":"struct","fields":[]}'
_BREAK = "\n"
_JOINED = 1 << 16
"""Files whose lines are joined at once: Arrow's strings end at 2 GiB."""

_log = logging.getLogger(__name__)
_relations: SessionCache[Any] = SessionCache(RELATIONS_KEPT)


@dataclass(frozen=True, slots=True)
class Files:
    """Files to scan."""

    identity: str
    """The same for the same files of the same table, and for nothing else."""
    columns: pa.Table
    """One row a file, with ADD-1's columns: `path`, `size`, bounds, …"""
    schema: Schema
    partition_ids: frozenset[int]
    groups: Groups | None = None
    """None: by their partition values."""
    matching: Callable[[Predicate], NDArray[np.int64]] | None = None
    """Gives the ids of those that may hold rows for which a predicate is true; None: `columns` has
    the bounds that tell."""
    vectors: Callable[[pa.Table], pa.Table] | None = None
    """Gives `columns` with `vector`, the rows that are gone; None: it is there if any is."""
    positions: bool = False
    """With a column more, POSITION: where a row is in its file."""
    of_statement: bool = False
    """Read by a statement that changes rows: the code that Spark makes for it is made once."""


def snapshot_files(store: Store, snapshot: Snapshot, *, asked: bool = False) -> Files:
    """The files of one version; `asked`: somebody asked for it by number or time."""
    table = snapshot_identity(store, snapshot.table_id, asked=asked)
    return Files(
        identity=f"{table}@{snapshot.version}",
        columns=snapshot.files_with(("path", "size", "rows")),
        schema=snapshot.schema,
        partition_ids=snapshot.partition_ids,
        matching=snapshot.ids_matching,
        vectors=snapshot.with_vectors,
    )


def snapshot_identity(store: Store, table_id: str, *, asked: bool = False) -> str:
    """Names a table's files; `asked` tells a version that somebody asked for from the newest."""
    return f"{store.identity}#{table_id}{'!' if asked else ''}"


def to_dataframe(spark: Session, store: Store, files: Files, *, keep: bool = False) -> DataFrame:
    """A DataFrame over exactly these files, columns under their logical names.

    Args:
        spark: a classic session.
        store: where the files are.
        files: which.
        keep: a whole snapshot, likely to be read again: its relation is kept.

    Raises:
        UnsupportedFeatureError: Hadoop has no file system for the store, or the JVM is no use.
    """
    from pyspark.sql import DataFrame

    relation = (kept_relation if keep else to_relation)(spark, store, files)
    return DataFrame(java_session(spark).baseRelationToDataFrame(relation), spark)


def kept_relation(
    spark: Any,
    store: Store,
    files: Files,
    uri: str | None = None,
    storage: Mapping[str, str] | None = None,
) -> Any:
    """`to_relation`, built once for as long as it is among the last RELATIONS_KEPT in use."""
    root = hadoop_root(store)
    # The scheme of a bucket tells its credentials apart.
    place = (root.scheme, root.authority, root.path)
    given = json.dumps(storage, sort_keys=True)
    key = (files.identity, *place, uri, given)
    return _relations.get(spark, key, lambda: to_relation(spark, store, files, uri, storage))


def to_relation(
    spark: Any,
    store: Store,
    files: Files,
    uri: str | None = None,
    storage: Mapping[str, str] | None = None,
) -> Any:
    """A relation of the JVM over exactly these files, columns under their logical names.

    Args:
        spark: a classic session.
        store: where the files are.
        files: which.
        uri: where INSERT into the relation writes; None: it is refused.
        storage: handed back to Python with such an INSERT.

    Raises: as `to_dataframe`.
    """
    root = hadoop_root(store)
    _check_names(files.schema)
    given = None
    if storage is not None:
        given = java_classes.kept(spark, "HashMap", lambda: jvm_of(spark).java.util.HashMap)()
        for name, text in storage.items():
            given.put(name, text)
    # Spark itself would not ask about conditions on partitions and other columns together.
    java_classes.add_rule(spark)
    connect_plain_files(spark)
    described = without_variables(to_spark_json(files.schema))
    columns = java_classes.java_schema(spark, json.dumps(described))
    partitions = java_classes.java_schema(spark, group_columns(files))
    by = files.partition_ids
    count, size = files.columns.num_rows, pc.sum(files.columns["size"]).as_py() or 0
    index = java_classes.new_instance(
        spark,
        "SnapshotFileIndex",
        files.identity,
        root.scheme,
        root.authority,
        root.path,
        java_classes.long(spark, count),
        java_classes.long(spark, size),
        java_classes.long(spark, live_rows(files.columns)),
        columns,
        partitions,
    )
    index.setSurvivors(java_classes.callback(spark, survivors(files)))
    _leave_out(spark, index, files)
    if files.of_statement:
        index.setOfStatement()
    if files.positions:
        columns = columns.add(POSITION, "long", True)
    return java_classes.new_instance(
        spark,
        "SnapshotRelation",
        index,
        columns,
        _format(spark, files, columns),
        java_classes.scala_map(spark, {**READ_OPTIONS, **root.settings}),
        java_session(spark),
        uri,
        given,
        java_classes.string_array(spark, [f.name for f in files.schema.fields if f.id in by]),
        _with_defaults(spark, files.schema, columns),
    )


def _check_names(schema: Schema) -> None:
    """Refuse a column that Spark's reader would not read. Raises UnsupportedFeatureError."""
    for name in schema.names:
        if folded(name) == POSITION:
            raise UnsupportedFeatureError(
                f"Spark's reader keeps the name {name!r} for itself; rename the column, or read "
                "the table through Arrow",
                ["spark:column-name"],
            )
    replaced = replaced_name(schema)
    if replaced is not None:
        raise UnsupportedFeatureError(
            f"Spark's reader would put a setting in place of a part of the name {replaced!r}; read "
            "the table with tablefmt.spark.read() or tablefmt.open(), which go through Arrow",
            ["spark:column-name"],
        )


def _leave_out(spark: Any, index: Any, files: Files) -> None:
    """Tell the index which rows are gone (DEL-4)."""
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
            return FAILED + hand_over(error)
        assert vectors.null_count == 0, "rows are gone of each of them"
        return b"".join(vectors.to_pylist())

    rows = java_classes.new_instance(
        spark,
        "DeletedRows",
        "\n".join(f"{place}\t{rows}" for place, rows in lines),
        java_classes.long(spark, DELETED_TASK_BYTES),
        java_classes.long(spark, DELETED_BITS_BYTES),
    )
    # A statement that looks at the table's columns alone never asks.
    rows.setPacked(java_classes.callback(spark, packed))
    index.setDeletedRows(rows)


def _with_defaults(spark: Any, schema: Schema, columns: Any) -> Any:
    """The columns as INSERT has to see them (SCH-7)."""
    if all(field.default is None for field in schema.fields):
        return columns
    described = say_values(to_spark_json(schema), schema, CURRENT_DEFAULT)
    return java_classes.java_schema(spark, json.dumps(described))


def _parquet(jvm: Any) -> Any:
    return jvm.org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat


def _in_every_file(files: Files) -> frozenset[int]:
    """Partition columns whose values the log keeps less exactly (VAL-2), so that files say them.

    A file that lacks one has the log's value in all rows (DAT-8), which Spark's reader cannot be
    told: it is to refuse the file as one that lacks a column that is NOT NULL.
    """
    grouped = {column["name"] for column in json.loads(group_columns(files))["fields"]}
    named = {f.id for f in files.schema.fields if f.name not in grouped}
    return files.partition_ids & named


def _format(spark: Any, files: Files, columns: Any) -> Any:
    """Spark's own Parquet, or one that knows the names in the files, and what they lack (SCH-3,
    SCH-7).
    """
    needed = _in_every_file(files)
    named = physical(files.schema)
    initial = [column for column in named.fields if column.initial is not None]
    if named == files.schema and not initial and not needed:
        return java_classes.kept(spark, "ParquetFileFormat", lambda: _parquet(jvm_of(spark)))()
    described = say_values(to_spark_json(named), named, EXISTS_DEFAULT)
    for column, one in zip(named.fields, described["fields"], strict=True):
        if column.id in needed:
            one["metadata"].pop(EXISTS_DEFAULT, None)
            one["metadata"][_IN_EVERY_FILE] = True
    inside = java_classes.java_schema(spark, json.dumps(described))
    return java_classes.new_instance(spark, "SnapshotFormat", columns, inside)


@dataclass(frozen=True, slots=True)
class HadoopRoot:
    """Where Hadoop finds a table: nothing in it is escaped."""

    scheme: str
    authority: str | None
    """The bucket; None on a local disk."""
    path: str
    """Absolute."""
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For the Hadoop configuration of a scan or a write. Credentials may be among them."""

    def __truediv__(self, below: str) -> str:
        """Text of a path below, in the form that Hadoop reads without unescaping."""
        place = f"//{self.authority}" if self.authority else ""
        return f"{self.scheme}:{place}{self.path}/{below}"


def hadoop_root(store: Store) -> HadoopRoot:
    """Where Hadoop finds the table.

    Raises:
        UnsupportedFeatureError: the store is not one that Hadoop opens too.
    """
    kind = store.identity.partition("://")[0]
    if kind == "file":
        return HadoopRoot("file", None, store.uri)
    if kind == "s3":
        place = s3_place(store)
        return HadoopRoot(place.scheme, place.bucket, place.path, place.settings)
    raise UnsupportedFeatureError(
        f"Hadoop has no file system for tables at {kind}://", [f"spark:{kind}"]
    )


def group_columns(files: Files) -> str:
    """The columns that have one value a file, in Spark's JSON form of a StructType."""
    # Which columns these are does not depend on which files.
    groups = files.groups or _groups_of(files, files.columns.slice(0, 1))
    return groups.columns if groups else _NO_COLUMNS


def survivors(files: Files) -> Callable[[str], bytes | None]:
    """What the JVM asks: condition text, "" for none, to the files that are left, as `file_lines`.

    Text that tells no files apart, for whatever reason, is of no use: an answer of None.
    """
    prune = pruner(files)

    def listed(text: str) -> bytes | None:
        if not text:
            return file_lines(files, None)
        try:
            mask = prune(text)
            return None if mask is None else file_lines(files, mask)
        except Exception:
            # It runs in a callback of the JVM: nobody could catch it, and all files are right too.
            _log.warning("no files could be left out, all are read", exc_info=True)
            return None

    return listed


def pruner(files: Files) -> Callable[[str], NDArray[np.bool_] | None]:
    """From condition text (logical names, times in UTC) to a mark a file; None: it is of no use."""

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
    """The files that are marked, or all, as FileList.java reads them.

    How many groups of files there are, a line a group (its values), and a line a file: place among
    all, size, group, path, tabs between. KEY-2 keeps tabs out of paths.
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
    """The groups that some of the files are in; these are at `places` among all."""
    given = files.groups
    if given is None:
        return partition_groups(chosen, files.schema, files.partition_ids)
    assert places is not None
    of_file = given.of_file.take(places).dictionary_encode()
    lines = pa.array(given.values.split(_BREAK), pa.string()).take(of_file.dictionary)
    return Groups(given.columns, _BREAK.join(lines.to_pylist()), of_file.indices)
