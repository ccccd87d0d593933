"""First entry of a clone: the definition and the files of one version of another table. Pure.

A shallow clone names the files of its source, as imported files (IMP-1). A deep clone names copies
of them. Deleted rows are in the same entry. Spec: CLN-1 .. CLN-3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablefmt.commit.restore_plan import added_again
from tablefmt.commit.transaction_plan import Staged
from tablefmt.conflict.read_write_sets import own_file
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.expressions.generated_columns import features_for
from tablefmt.model.features import IMPORTED
from tablefmt.model.identity_columns import with_counters
from tablefmt.model.import_layouts import NUMBER
from tablefmt.model.log_entry import (
    OWN,
    AddedFiles,
    Import,
    Metadata,
    Operation,
    OperationClass,
    ProtocolFeatures,
)
from tablefmt.model.positions import DeletionVector
from tablefmt.model.schema import is_float
from tablefmt.model.tags import without_tags
from tablefmt.snapshot.head import Head
from tablefmt.snapshot.table_state import Snapshot

NAME = "CLONE"
FORMAT = "tablefmt"
"""Format of the source of a shallow clone (IMP-2)."""

EXPORT = "export"
"""Property that a shallow clone does not take over: no copy can show files outside its folder."""

COPY = "copy-"
"""Prefix of the name of the copy of a file that the source's writers wrote."""

FEATURES = ProtocolFeatures((IMPORTED,), (IMPORTED,))


@dataclass(frozen=True, slots=True, eq=False)
class CloneSource:
    """One version of a table, as a clone reads it."""

    uri: str
    snapshot: Snapshot
    metadata: Metadata
    files: pa.Table
    """Its live files, with the log's columns."""

    @classmethod
    def of(cls, uri: str, snapshot: Snapshot, head: Head) -> CloneSource:
        """Return a version. Its identity columns continue after the head's (IDN-4)."""
        metadata = with_counters(snapshot.metadata, head.applications)
        return cls(uri, snapshot, metadata, snapshot.files)

    @property
    def version(self) -> int:
        """Return the version."""
        return self.snapshot.version

    def numbers(self) -> pa.ChunkedArray:
        """Return the import of each file, or NULL."""
        if NUMBER in self.files.column_names:
            return self.files[NUMBER].cast(pa.int64())
        return pa.chunked_array([pa.nulls(self.files.num_rows, pa.int64())])

    def imports(self) -> dict[int, Import]:
        """Return the imports that live files have."""
        used = pc.unique(self.numbers()).to_pylist()
        return {number: self.metadata.imports[number] for number in used if number is not None}

    def roots(self) -> list[str]:
        """Return the folders that the files are in, each once."""
        known = [each.root or self.uri for each in self.imports().values()]
        return list(dict.fromkeys([self.uri, *known]))


def cloned_metadata(source: CloneSource, imports: Mapping[int, Import]) -> Metadata:
    """Return the definition of a clone, without the source's tags and its comment (CLN-1)."""
    kept = without_tags(source.metadata.properties)
    if any(each.root for each in imports.values()):
        kept.pop(EXPORT, None)
    return replace(source.metadata, properties=kept, imports=dict(imports), comment=None)


def shallow_imports(source: CloneSource) -> tuple[dict[int, Import], pa.ChunkedArray]:
    """Return the imports of a shallow clone, and the import of each file (CLN-2).

    Types may be wider than at the import. So the clone has no `lookup` (IMP-8).

    Raises:
        UnsupportedFeatureError: IMP-4, a file would show another value of a partition column.
    """
    numbers, uri = source.numbers(), source.uri
    imports = {
        number: replace(each, root=each.root or uri, adopt=False, lookup=None)
        for number, each in source.imports().items()
    }
    if not numbers.null_count:
        return imports, numbers
    _check_zeros(source, numbers)
    own = max(source.metadata.imports, default=0) + 1
    imports[own] = Import(root=uri, names={}, format=FORMAT, uri=uri, version=source.version)
    return imports, pc.fill_null(numbers, own)


def _check_zeros(source: CloneSource, numbers: pa.ChunkedArray) -> None:
    """Refuse files of a partition with a zero of FLOAT or DOUBLE: its rows may have -0.0."""
    schema = source.metadata.schema
    for i in sorted(source.metadata.all_partition_ids):
        if not is_float(schema.by_id(i).type):
            continue
        copied = source.files.filter(pc.is_null(numbers))
        # Some files may have another partitioning, under which a clone may fall back (EVO-3).
        names = {f"partition.{i}", f"{OWN}{i}"}.intersection(copied.column_names)
        if any(pc.any(pc.equal(copied[name], 0.0)).as_py() for name in names):
            name = schema.by_id(i).name
            raise UnsupportedFeatureError(
                f"a shallow clone cannot tell 0.0 and -0.0 of the partition column {name!r:.200} "
                "apart (rule IMP-4). Make a deep clone: shallow=False.",
                ["clone:partitions"],
            )


def deep_imports(source: CloneSource) -> tuple[dict[int, Import], pa.ChunkedArray]:
    """Return the imports of a deep clone, and the import of each file (CLN-3).

    Copies keep the names of columns that their originals have.
    """
    imports = {
        number: replace(each, root="", adopt=True, lookup=None)
        for number, each in source.imports().items()
    }
    return imports, source.numbers()


def copy_names(source: CloneSource) -> list[str]:
    """Return the name of the copy of each file. All copies of one file of one table have one name.

    Other programs may change an imported file, so its name says nothing.
    """
    table, paths = source.snapshot.table_id, source.files["path"].to_pylist()
    return [
        f"{COPY}{hashlib.sha256(f'{table}/{path}'.encode()).hexdigest()[:32]}.parquet"
        if number is None
        else f"0-{at}.parquet"
        for at, (path, number) in enumerate(zip(paths, source.numbers().to_pylist(), strict=True))
    ]


def copies_there(source: CloneSource, names: Sequence[str], table: Snapshot) -> list[str | None]:
    """Return the path of the copy of each file that the table to replace has; else None (CLN-6).

    Args:
        source: the version to clone.
        names: as `copy_names` returns them.
        table: the newest version of the table.
    """
    facts = ("path", "size", "rows", "footer")
    there = table.files_with({*facts, NUMBER})
    if NUMBER in there.column_names:
        own = [n for n, each in table.metadata.imports.items() if not each.root]
        numbers = there[NUMBER].cast(pa.int64())
        inside = pc.is_in(numbers, value_set=pa.array(own, pa.int64()))
        there = there.filter(pc.or_(pc.is_null(numbers), inside))
    if not there.num_rows:
        return [None] * len(names)
    found = pc.replace_substring_regex(there["path"], "^.*/", "")
    at = pc.index_in(pa.array(names, pa.string()), value_set=found)
    taken = there.take(pc.fill_null(at, 0))
    alike = pc.and_(at.is_valid(), pc.starts_with(pa.array(names, pa.string()), COPY))
    for fact in facts[1:]:
        ours, theirs = (
            files[fact] if fact in files.column_names else pa.nulls(len(names), pa.int64())
            for files in (source.files, taken)
        )
        alike = pc.and_(alike, pc.fill_null(pc.equal(ours, theirs), False))
    paths: list[str | None] = pc.if_else(alike, taken["path"], None).to_pylist()
    return paths


def staged_clone(
    source: CloneSource,
    transaction: str,
    metadata: Metadata,
    numbers: pa.ChunkedArray,
    parameters: Mapping[str, Any],
    paths: Sequence[str] | None = None,
) -> Staged:
    """Return the first entry of a clone.

    Args:
        source: the version to clone.
        transaction: of the entry, and of the copies.
        metadata: of the clone.
        numbers: the import of each file, or NULL.
        parameters: of the operation.
        paths: of the copies; None: the files of the source.
    """
    known = FEATURES if metadata.imports else ProtocolFeatures()
    return Staged(
        transaction=transaction,
        operation=Operation(name=NAME, cls=OperationClass.PROTOCOL, parameters=parameters),
        protocol=features_for(metadata, known) or known,
        metadata=metadata,
        add=_added(source, metadata, numbers, paths),
        deletes=_deletes(source),
    )


def _added(
    source: CloneSource,
    metadata: Metadata,
    numbers: pa.ChunkedArray,
    paths: Sequence[str] | None,
) -> AddedFiles | None:
    if not source.files.num_rows:
        return None
    columns = dict(added_again(source.files, metadata).columns)
    # Versions of the source mean nothing in the clone.
    columns.pop("written", None)
    columns.pop(NUMBER, None)
    if numbers.null_count < len(numbers):
        columns[NUMBER] = numbers.to_pylist()
    if paths is not None:
        columns["path"] = paths
    return AddedFiles(columns)


def _deletes(source: CloneSource) -> dict[int, DeletionVector]:
    """Return the deleted rows of the files, by `own_file`."""
    marked = pc.indices_nonzero(source.files["deleted"])
    files = source.files["id"].take(marked)
    return {
        own_file(at): DeletionVector(source.snapshot.positions(file), BitMap64())
        for at, file in zip(marked.to_pylist(), files.to_pylist(), strict=True)
    }
