"""Description of a source's files as an entry adds them, from their footers.

Footers are read 8 at a time. If a later file makes a column's type wider, bounds of earlier files
are computed again in that type. Spec: IMP-5, IMP-6, IMP-7, ADD-1, ADD-7.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.data.column_bounds import (
    SCHEMAS_KEPT,
    FooterBounds,
    file_bounds,
    stats_columns,
)
from tablefmt.data.data_writer import Gathered
from tablefmt.data.file_checksum import file_digest
from tablefmt.data.file_descriptions import read_footer
from tablefmt.errors import CorruptDataError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.imports.column_lookup import Lookup, column_lookup, holds_only
from tablefmt.imports.partition_values import typed_partitions
from tablefmt.imports.source import Source, refused
from tablefmt.imports.source_columns import (
    NamesInFile,
    calendar_problem,
    check_fits,
    fields_of,
    merged,
    plain_columns,
    reserved_names,
)
from tablefmt.imports.source_transforms import contradiction
from tablefmt.model.log_entry import AddedFiles
from tablefmt.model.name_matching import folded
from tablefmt.model.partition_fields import sources_of
from tablefmt.model.partition_transforms import transform_of
from tablefmt.model.schema import Field, Schema
from tablefmt.model.schema_rules import check_new_names, number_fields
from tablefmt.store.object_store import Store

THREADS = 8
"""Footers read in parallel: enough to hide a remote store's latency."""

TAIL_BYTES = 64 << 10
"""Bytes that the checksum of the footer covers (ADD-7). It covers shorter files whole."""

_Key = tuple[tuple[int, "str | None"], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Described:
    """A source as a table: its columns, its files and their names of columns."""

    schema: Schema
    partition_by: tuple[int, ...]
    add: AddedFiles | None
    """The files; None if no file has rows."""
    layouts: Sequence[tuple[Mapping[int, str | None], Lookup]]
    """Names of columns of each import, and how Iceberg's readers find them; by number from 1 on."""
    kept: Sequence[int]
    """Index in the source of each file in `add`: files without rows are left out."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Partition transforms of the source that the table lacks, with the reason."""


def describe_source(store: Store, source: Source) -> Described:
    """Return the source as a table. It reads all footers.

    Args:
        store: of the source's folder.
        source: the files.

    Raises:
        UnsupportedFeatureError: IMP-7, what no table can have.
        SchemaMismatchError: IMP-7, the files do not fit together.
        CorruptDataError: a file is missing, is no Parquet, or is damaged.
    """
    columns = _Columns(source)
    keys = _Keys()
    looks = list(_in_parallel(lambda at: _look(store, source, at, keys), len(source.paths)))
    for at, look in enumerate(looks):
        columns.take(source.paths[at], look)
    schema, partition_by, values = columns.finished()
    numbers: dict[tuple[_Key, Lookup], int] = {}
    stats = [f for f in stats_columns(schema) if f.id not in partition_by]
    gathered, kept, lacking = Gathered(), [], []
    for at, look in enumerate(looks):
        if source.rows and source.rows[at] != look.footer.num_rows:
            raise CorruptDataError(
                f"it has {look.footer.num_rows} rows, but the metadata says {source.rows[at]}",
                key=source.paths[at],
                rule="IMP-5",
            )
        deleted = source.deleted.get(at)
        if deleted and deleted.max() >= look.footer.num_rows:
            raise CorruptDataError(
                "its deletion vector names rows beyond its end", key=source.paths[at], rule="IMP-5"
            )
        if look.footer.num_rows == 0:
            continue
        layout = columns.layout(look, source.paths[at])
        held = {i: values[i][at] for i in partition_by}
        key = layout.names.key, layout.lookup_in(look.footer, held)
        number = numbers.setdefault(key, len(numbers) + 1)
        row: dict[str, Any] = {
            "path": source.paths[at],
            "size": source.sizes[at],
            "rows": look.footer.num_rows,
            "footer": look.checksum,
            "import": number,
        }
        if look.digest is not None:
            row["digest"] = look.digest
        row |= {f"partition.{i}": value for i, value in held.items()}
        row |= layout.bounds_in(stats).of(look.footer)
        gathered.take(row)
        kept.append(at)
        lacking.append(layout.lacking)
    schema, partition_by = columns.reserved(), tuple(partition_by)
    add, left = gathered.added(), dict(source.left_out)
    if add is not None and schema.hidden:
        schema, partition_by, add = _without_wrong(schema, partition_by, add, lacking, left)
    layouts = [(dict(names), lookup) for names, lookup in numbers] or [({}, None)]
    return Described(schema, partition_by, add, layouts, kept, left)


def _without_wrong(
    schema: Schema,
    partition_by: Sequence[int],
    add: AddedFiles,
    lacking: Sequence[frozenset[int]],
    left: dict[str, str],
) -> tuple[Schema, tuple[int, ...], AddedFiles]:
    """Return the table without hidden fields whose values are not those of the files' rows.

    `left` gets the reasons.
    """
    files = dict(add.columns)
    for hidden in schema.hidden:
        made = transform_of(hidden, schema)
        path = contradiction(hidden, schema, files, [made.column.id in ids for ids in lacking])
        if path:
            left[f"{made.iceberg} of {made.column.name!r:.200}"] = (
                f"the file {path!r:.300} has rows with other values, or may have"
            )
            del files[f"partition.{hidden.id}"]
    right = tuple(f for f in schema.hidden if f"partition.{f.id}" in files)
    stay = tuple(i for i in partition_by if f"partition.{i}" in files)
    return replace(schema, hidden=right), stay, AddedFiles(files)


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """Facts of one file from its footer."""

    footer: pq.FileMetaData
    checksum: int | None
    key: bytes
    """Key of the file's columns."""
    digest: str | None


def _in_parallel(work: Callable[[int], _Look], count: int) -> Iterator[_Look]:
    # A task costs as much as a small footer on a local disk, so many files share one.
    step = max(1, min(16, count // (8 * THREADS)))

    def some(start: int) -> list[_Look]:
        return [work(at) for at in range(start, min(start + step, count))]

    with ThreadPoolExecutor(THREADS) as pool:
        for looks in pool.map(some, range(0, count, step)):
            yield from looks


def _look(store: Store, source: Source, at: int, keys: _Keys) -> _Look:
    path, size = source.paths[at], source.sizes[at]
    footer, checksum = read_footer(store, path, size)
    problem = calendar_problem(footer)
    if problem is not None:
        raise refused(
            f"the file {path!r:.200}: {problem} (rule IMP-7)",
            "import:calendar",
            advice="Rewrite the file with a newer Spark.",
        )
    digest = None
    if size > TAIL_BYTES and footer.num_rows and not _has_page_checksums(store, path, footer):
        digest = base64.b64encode(file_digest(store, path, size)).decode()
    return _Look(footer, checksum, keys.of(footer), digest)


class _Keys:
    """Keys of the columns of files. Files with one Parquet schema have one key. Thread-safe."""

    def __init__(self) -> None:
        self._known: list[tuple[pq.ParquetSchema, bytes | None, bytes]] = []

    def of(self, footer: pq.FileMetaData) -> bytes:
        """Return the key of a file's columns."""
        # Arrow takes types from there, such as dictionaries.
        told = (footer.metadata or {}).get(b"ARROW:schema")
        for schema, known, earlier in reversed(self._known):
            if told == known and footer.schema.equals(schema):
                return bytes(earlier)
        key = _key(footer)
        self._known = [*self._known[-SCHEMAS_KEPT + 1 :], (footer.schema, told, key)]
        return key


def _key(footer: pq.FileMetaData) -> bytes:
    columns = footer.schema.to_arrow_schema().remove_metadata()
    # INT96 and INT64 of ns have one Arrow type.
    has_ns = any("[ns" in str(kind) for kind in columns.types)
    leaves = range(len(footer.schema)) if has_ns else ()
    kinds = [footer.schema.column(leaf).physical_type == "INT96" for leaf in leaves]
    return bytes(columns.serialize().to_pybytes() + bytes(kinds))


def _has_page_checksums(store: Store, path: str, footer: pq.FileMetaData) -> bool:
    """Return whether the first page of a file has a checksum."""
    for group in map(footer.row_group, range(footer.num_row_groups)):
        if group.num_rows:
            chunk = group.column(0)
            offsets = (chunk.dictionary_page_offset, chunk.data_page_offset)
            starts = [offset for offset in offsets if offset is not None and offset >= 4]
            return bool(starts) and has_checksum(store.get_range(path, min(starts), 64))
    return False


def has_checksum(header: bytes) -> bool:
    """Return whether a page header, in Thrift's compact form, has the field `crc`.

    The fields before it are three integers: the type of the page and two lengths.
    """
    at = 0
    for _ in range(3):
        if at >= len(header) or header[at] != 0x15:
            return False
        at += 1
        while at < len(header) and header[at] & 0x80:
            at += 1
        at += 1
    return at < len(header) and header[at] == 0x15


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Names and bounds' columns of files with the same columns."""

    names: NamesInFile
    lookup: Lookup
    """Way in which Iceberg's readers find the columns."""
    held: Sequence[Field]
    """Partition columns that the files have."""
    lacking: frozenset[int]
    """Ids of columns with a hidden partition field that the files lack."""
    _bounds: list[FooterBounds] = field(default_factory=list)

    def bounds_in(self, stats: Sequence[Field]) -> FooterBounds:
        """Return the bounds of columns under their names in these files."""
        if not self._bounds:
            named = [(f, self.names.names.get(f.id, f.physical)) for f in stats]
            renamed = [replace(f, physical=n) for f, n in named if n is not None]
            self._bounds.append(FooterBounds(renamed))
        return self._bounds[0]

    def lookup_in(self, footer: pq.FileMetaData, partition: Mapping[int, Any]) -> Lookup:
        """Return how a reader of Iceberg finds the columns of one file.

        Args:
            footer: of the file.
            partition: the file's partition values, by field id.
        """
        if self.lookup is None or not self.held:
            return self.lookup
        bounds = file_bounds(footer, self.held)
        same = all(holds_only(partition[f.id], bounds, f, footer.num_rows) for f in self.held)
        return self.lookup if same else None


class _Columns:
    """Columns of all files together. Files with the same columns are examined once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._first = ""
        self._plain: dict[bytes, pa.Schema] = {}
        self._layouts: dict[bytes, _Layout] = {}
        self._schema = source.schema
        self._partition_by = tuple(source.partition_by)
        self._reserved: set[str] = set()
        """Names in files that no new column may get."""

    def take(self, path: str, look: _Look) -> None:
        """Add the columns of a file."""
        if look.key in self._plain:
            return
        try:
            columns = plain_columns(look.footer)
        except UnsupportedFeatureError as error:
            raise refused(f"{path!r:.200}: {error}", *error.features) from None
        self._plain[look.key] = columns
        if self._source.schema is not None:
            return
        partitions = set(self._source.partition_names)
        fields = [f for f in fields_of(columns) if f.name not in partitions]
        if not fields:
            raise SchemaMismatchError(
                f"the file {path!r:.200} has only partition columns (rule IMP-7). Write a data "
                "column into it.",
                sorted(partitions),
            )
        if self._schema is None:
            self._schema, self._first = number_fields(fields), path
        else:
            self._schema = merged(self._schema, fields, path, self._first)

    def finished(self) -> tuple[Schema, tuple[int, ...], Mapping[int, Sequence[Any]]]:
        """Return the table's schema, its partition columns, and their values in each file."""
        source = self._source
        if source.schema is not None:
            self._schema = source.schema
            return source.schema, self._partition_by, source.values
        if self._schema is None:
            raise refused("it has no Parquet file", "import:empty")
        known = typed_partitions(source.partition_names, source.partitions, source.partition_types)
        fields = [Field(0, name, name, kind) for name, kind, _ in known]
        numbered = number_fields(fields, self._schema.last_id + 1) if fields else None
        more = () if numbered is None else numbered.fields
        last = self._schema.last_id if numbered is None else numbered.last_id
        schema = check_new_names(Schema((*self._schema.fields, *more), last))
        self._schema = schema
        self._partition_by = tuple(f.id for f in more)
        values = {f.id: v for f, (_, _, v) in zip(more, known, strict=True)}
        return schema, self._partition_by, values

    def reserved(self) -> Schema:
        """Return the table's schema, which reserves the names in files that are not its own."""
        assert self._schema is not None
        names = {*self._schema.dropped, *self._reserved}
        return replace(self._schema, dropped=tuple(sorted(names)))

    def _layout_of(self, look: _Look, names: NamesInFile) -> _Layout:
        assert self._schema is not None
        columns = look.footer.schema.to_arrow_schema()
        lookup = column_lookup(self._schema, columns, names.names, self._source.known_names)
        held = [f for f in self._schema.fields if f.id in self._partition_by]
        plain = self._plain[look.key]
        sources = (self._schema.by_id(i) for i in sources_of(self._schema))
        lacking = frozenset(f.id for f in sources if names.lack(f, plain))
        in_files = [f for f in held if folded(f.physical) in map(folded, columns.names)]
        if any(f.physical not in columns.names for f in in_files):
            lookup = None
        return _Layout(names, lookup, in_files, lacking)

    def layout(self, look: _Look, path: str) -> _Layout:
        """Return the layout of a file.

        Raises:
            SchemaMismatchError: a column does not fit.
            UnsupportedFeatureError: IMP-7, a column has its values in the source's metadata only.
        """
        assert self._schema is not None
        if look.key not in self._layouts:
            columns, source = self._plain[look.key], self._source
            if source.by_ids:
                names = NamesInFile.by_id(self._schema, columns, source.known_names)
            else:
                names = NamesInFile.by_name(self._schema, columns)
            rest = set(self._partition_by)
            values = {i: n for i, n in names.names.items() if i not in rest}
            names = NamesInFile(values)
            data = tuple(f for f in self._schema.fields if f.id not in rest)
            check_fits(replace(self._schema, fields=data), columns, names, path)
            self._reserved |= set(reserved_names(self._schema, columns, names.names))
            self._layouts[look.key] = self._layout_of(look, names)
        layout = self._layouts[look.key]
        for i in self._source.lost_values.get(path, ()):
            column = self._schema.by_id(i)
            if layout.names.lack(column, self._plain[look.key]):
                raise refused(
                    f"{path!r:.300} lacks the column {column.name!r:.200}, whose value is in the "
                    "metadata, and not every file is partitioned by it (rule IMP-7)",
                    "import:partitions",
                    advice="Rewrite the older files with rewrite_data_files first.",
                )
        return layout
