"""Iceberg tables: files, columns by id, partition values and deleted positions, by PyIceberg.

PyIceberg gets the objects from the table's own store, so metadata cannot lead it to other places.
Spec: IMP-5, IMP-7.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablefmt.errors import (
    CorruptDataError,
    CorruptEntryError,
    CorruptTableError,
    SchemaMismatchError,
    TablefmtError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from tablefmt.imports.source import Source, refused
from tablefmt.imports.source_transforms import SpecField, hiding
from tablefmt.log.bounded_avro import AVRO_ERRORS, checked_avro
from tablefmt.log.bounded_records import batches_of
from tablefmt.log.object_names import imported_path_problem
from tablefmt.log.strict_json import bounded_json
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.positions import framed_positions
from tablefmt.model.scalar_values import encode
from tablefmt.model.schema import Array, Decimal, Field, Map, Primitive, Schema, Struct, Type
from tablefmt.model.schema_rules import check_new_names
from tablefmt.store.object_store import COPY_BYTES_MAX, KeyNotFoundError, Store

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table

METADATA = "metadata/"

POSITIONS = 1 << 16
"""Deleted positions that are read at once."""

_NAME = re.compile(r"(?:v([0-9]{1,19})|([0-9]{1,19})-[0-9a-zA-Z-]+)\.metadata\.json")


_METADATA_FILE = re.compile(r"(.*[^/])/metadata/([^/]+\.metadata\.json)")


def metadata_named(uri: Any) -> tuple[Any, str | None]:
    """Return the folder of a table, and the metadata file that an address names, if any. Pure."""
    match = _METADATA_FILE.fullmatch(str(uri)) if isinstance(uri, str | PurePath) else None
    return (uri, None) if match is None else (match[1], match[2])


def iceberg_source(store: Store, named: str | None = None) -> Source:
    """Return the files of the current snapshot of an Iceberg table.

    Args:
        store: of the table's folder.
        named: the metadata file to read, as a catalog names it; None: the newest by its number.

    Raises:
        TableNotFoundError: there is no Iceberg table.
        UnsupportedFeatureError: IMP-7; or PyIceberg is not installed.
        SchemaMismatchError: IMP-7. CorruptTableError, CorruptDataError: damaged metadata.
    """
    name = newest_metadata(store) if named is None else named
    folder = _Folder(store)
    table = _opened(folder, name)
    try:
        return _source(store, folder, table, None if named else name)
    except TablefmtError:
        raise
    except Exception as error:
        # PyIceberg raises errors of many libraries for damaged metadata.
        raise CorruptTableError(
            f"the metadata of the Iceberg table cannot be read: {str(error)[:300]}",
            key=METADATA + name,
            rule="IMP-5",
        ) from error


def newest_metadata(store: Store) -> str:
    """Return the name of the newest metadata file, by its number.

    Raises:
        TableNotFoundError: there is none.
        UnsupportedFeatureError: two have the same number; name one of them by a catalog.
    """
    names: dict[int, list[str]] = {}
    for one in store.list_after(METADATA):
        match = _NAME.fullmatch(one.key.removeprefix(METADATA))
        if match is not None:
            names.setdefault(int(match[1] or match[2]), []).append(match[0])
    if not names:
        raise TableNotFoundError(store.uri, "it holds no metadata of an Iceberg table")
    newest = names[max(names)]
    if len(newest) > 1:
        raise refused(
            f"two metadata files have the newest number: {', '.join(sorted(newest))!r:.300}",
            "import:iceberg",
            advice="Import the one that the catalog names by its address.",
        )
    return newest[0]


class _Folder:
    """The folder of an Iceberg table, by the addresses in its metadata."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.location = ""

    def key(self, address: str) -> str:
        """Return the key of an address in the table's folder.

        Raises:
            UnsupportedFeatureError: IMP-7, it is outside.
        """
        plain, base = _plain(address), _plain(self.location).rstrip("/") + "/"
        key = plain.removeprefix(base)
        if key == plain or any(part in ("", ".", "..") for part in key.split("/")):
            raise refused(
                f"the metadata names {address!r:.300}, outside of {self.location!r:.300} "
                "(rule IMP-7)",
                "import:path",
            )
        return key

    def body(self, key: str) -> bytes:
        """Return the bytes of an object. Raises CorruptDataError."""
        try:
            size = self.store.size(key)
            if size > COPY_BYTES_MAX:
                message = f"it has {size} bytes; at most {COPY_BYTES_MAX} are read"
                raise CorruptDataError(message, key=key, rule="IMP-5")
            return self.store.get_range(key, 0, size)
        except KeyNotFoundError:
            raise CorruptDataError("it is missing", key=key, rule="IMP-5") from None


def _plain(address: str) -> str:
    """Return an address in one spelling: `file:` and `s3a:` have others."""
    if address.startswith("file:"):
        return "/" + address.removeprefix("file:").lstrip("/")
    return re.sub(r"^s3[an]://", "s3://", address)


def _opened(folder: _Folder, name: str) -> Table:
    """Open a metadata file with PyIceberg, which reads only through the store of the folder."""
    try:
        from pyiceberg.catalog.noop import NoopCatalog
        from pyiceberg.io import FileIO
        from pyiceberg.table import Table
        from pyiceberg.table.metadata import TableMetadataUtil
    except ModuleNotFoundError:
        raise UnsupportedFeatureError(
            "importing an Iceberg table needs PyIceberg. Install it with "
            "pip install 'tablefmt[iceberg]'.",
            ["extra:iceberg"],
        ) from None

    class StoreIO(FileIO):  # type: ignore[misc]
        """Objects of the table's folder, read-only."""

        def new_input(self, location: str) -> Any:
            return _Input(folder, location)

        def new_output(self, location: str) -> Any:
            raise PermissionError(location)

        def delete(self, location: Any) -> None:
            raise PermissionError(str(location))

    key = METADATA + name
    body = folder.body(key)
    try:
        document = bounded_json(body)
        folder.location = document["location"]
        if document.get("encryption-keys"):
            raise refused("it is encrypted", "import:iceberg")
        metadata = TableMetadataUtil.parse_raw(body.decode())
    except UnsupportedFeatureError:
        raise
    except Exception as error:
        # It may be damaged, or of a version or with a type that PyIceberg does not know.
        raise refused(
            f"PyIceberg cannot read {key!r:.200}: {str(error)[:300]}", "import:iceberg"
        ) from error
    return Table(("table",), metadata, key, StoreIO(), NoopCatalog("none"))


class _Input:
    """An object as PyIceberg's InputFile."""

    def __init__(self, folder: _Folder, location: str) -> None:
        self._folder = folder
        self.location = location

    def __len__(self) -> int:
        return self._folder.store.size(self._folder.key(self.location))

    def exists(self) -> bool:
        """Return whether the object exists."""
        try:
            return len(self) >= 0
        except KeyNotFoundError:
            return False

    def open(self, seekable: bool = True) -> io.BytesIO:
        """Return the object as a file."""
        key = self._folder.key(self.location)
        try:
            # PyIceberg opens manifests and lists of manifests alone, and believes their lengths.
            return io.BytesIO(checked_avro(self._folder.body(key)))
        except AVRO_ERRORS as error:
            if isinstance(error, TablefmtError):
                raise
            raise CorruptDataError(
                f"it is not a readable Avro file: {error!s:.200}", key=key, rule="IMP-5"
            ) from None


def _source(store: Store, folder: _Folder, table: Table, newest: str | None) -> Source:
    """Return the source. `newest`: the newest metadata file; None: another one is read."""
    fields = tuple(_field(f, top=True) for f in table.schema().fields)
    try:
        schema = check_new_names(Schema(fields, table.metadata.last_column_id))
    except SchemaMismatchError as error:
        raise refused(str(error).rstrip("."), "import:schema") from None
    _check_snapshot(table)
    _check_deletes(table)
    tasks = list(table.scan().plan_files())
    by = _identities(table, tasks)
    specs = _specs(table, tasks)
    current = dict(_named(table.spec()))
    hidden = hiding(schema, current, list(specs.values()), by)
    paths, sizes, rows, deleted = [], [], [], {}
    lost: dict[str, frozenset[int]] = {}
    columns = {f.id for f in fields}
    values: dict[int, list[Any]] = {i: [] for i in (*by, *hidden.fields)}
    deletes = _Deletes(folder)
    for at, task in enumerate(tasks):
        file = task.file
        path = folder.key(file.file_path)
        problem = imported_path_problem(path)
        if problem is not None:
            raise refused(f"the file {path!r:.300}: {problem} (rule IMP-1)", "import:path")
        if file.file_format.name != "PARQUET":
            raise refused(f"the file {path!r:.300} is {file.file_format.name}", "import:format")
        paths.append(path)
        sizes.append(int(file.file_size_in_bytes))
        rows.append(int(file.record_count))
        # A column may have other transforms beside the identity, such as truncate.
        places = specs[file.spec_id]
        held = {i: file.partition[n] for (i, kind), n in places.items() if kind == "identity"}
        for i in by:
            values[i].append(held.pop(i))
        for i, meant in hidden.fields.items():
            values[i].append(file.partition[places[meant]])
        others = frozenset(i for i, v in held.items() if v is not None and i in columns)
        if others:
            lost[path] = others
        positions = deletes.of(task)
        if positions:
            deleted[at] = positions
    mapping = table.name_mapping()
    snapshot = table.current_snapshot()

    def changed() -> str | None:
        if newest is None:
            return None
        now = newest_metadata(store)
        return None if now == newest else f"its newest metadata is {now!r} now"

    return Source(
        format="iceberg",
        version=None if snapshot is None else snapshot.snapshot_id,
        paths=paths,
        sizes=sizes,
        rows=rows,
        schema=hidden.schema,
        partition_by=_in_order(current, by, hidden.fields),
        values={i: _encoded(held, hidden.schema.by_id(i)) for i, held in values.items()},
        left_out=hidden.left,
        lost_values=lost,
        deleted=deleted,
        by_ids=True,
        known_names={} if mapping is None else dict(_known_names(mapping.root)),
        changed=changed,
    )


def _known_names(fields: Sequence[Any]) -> Iterator[tuple[int, list[str]]]:
    for field in fields:
        if field.field_id is not None:
            yield field.field_id, list(field.names)
        yield from _known_names(field.fields)


def _check_snapshot(table: Table) -> None:
    """Refuse a current snapshot that is not listed, or is not that of the main branch."""
    current, main = table.metadata.current_snapshot_id, table.metadata.refs.get("main")
    named = current if main is None else main.snapshot_id
    if named != current or (current is not None and table.current_snapshot() is None):
        raise ValueError(
            f"the current snapshot {current} is missing, or is not the snapshot of branch main"
        )


def _check_deletes(table: Table) -> None:
    """Refuse equality deletes: they are no positions, and would have to be looked up."""
    from pyiceberg.manifest import DataFileContent, ManifestContent

    snapshot = table.current_snapshot()
    for manifest in () if snapshot is None else snapshot.manifests(table.io):
        if manifest.content != ManifestContent.DELETES:
            continue
        for entry in manifest.fetch_manifest_entry(table.io):
            if entry.data_file.content == DataFileContent.EQUALITY_DELETES:
                raise refused(
                    "it has equality deletes (rule IMP-7)",
                    "import:equality-deletes",
                    advice="Compact the Iceberg table with rewrite_data_files first.",
                )


def _identities(table: Table, tasks: Sequence[FileScanTask]) -> list[int]:
    """Return the ids of columns by whose value every file is partitioned."""
    from pyiceberg.transforms import IdentityTransform

    specs = table.specs()
    used = {task.file.spec_id for task in tasks} | {table.spec().spec_id}
    columns = [
        {f.source_id for f in specs[i].fields if isinstance(f.transform, IdentityTransform)}
        for i in used
    ]
    flat = {f.field_id for f in table.schema().fields}
    everywhere = set.intersection(*columns) & flat if columns else set()
    chosen = [f.source_id for f in table.spec().fields if f.source_id in everywhere]
    return chosen if len(chosen) < len(flat) else chosen[:-1]


def _specs(table: Table, tasks: Sequence[FileScanTask]) -> dict[int, dict[SpecField, int]]:
    """Return the specs that files were written under, by id: the place of each field."""
    specs = table.specs()
    return {
        i: {key: n for n, (key, _) in enumerate(_named(specs[i]))}
        for i in {task.file.spec_id for task in tasks}
    }


def _in_order(
    current: Iterable[SpecField], columns: Sequence[int], hidden: Mapping[int, SpecField]
) -> list[int]:
    """Return the ids of partition fields in the order of the spec in force."""
    ids = {(i, "identity"): i for i in columns} | {key: i for i, key in hidden.items()}
    return [ids[key] for key in current if key in ids]


def _named(spec: Any) -> Iterator[tuple[SpecField, str]]:
    for field in spec.fields:
        yield (field.source_id, str(field.transform)), field.name


def _encoded(values: Sequence[Any], field: Field) -> list[Any]:
    """Return partition values in the form of the log (VAL-1)."""
    target = arrow_type(field.type)
    if pa.types.is_temporal(target):
        whole = all(value is None or isinstance(value, int) for value in values)
        plain = pa.int32() if pa.types.is_date(target) else pa.int64()
        array = pa.array(values, plain).cast(target) if whole else pa.array(values, target)
    else:
        array = pa.array(values, target)
    if pa.types.is_floating(target):
        # One zero and one NaN (VAL-2).
        array = pc.add(array, pa.scalar(0.0, target))
    return encode(array, field.type)


class _Deletes:
    """Deleted positions in the delete files of a table. Each file is read once."""

    def __init__(self, folder: _Folder) -> None:
        self._folder = folder
        self._known: dict[str, Mapping[str, BitMap64]] = {}

    def of(self, task: FileScanTask) -> BitMap64:
        """Return the deleted positions of a task's file."""
        positions = BitMap64()
        path = self._folder.key(task.file.file_path)
        for delete in task.delete_files:
            key = self._folder.key(delete.file_path)
            if key not in self._known:
                self._known[key] = self._read(key, delete.file_format.name)
            positions |= self._known[key].get(path, BitMap64())
        return positions

    def _read(self, key: str, form: str) -> Mapping[str, BitMap64]:
        body = self._folder.body(key)
        try:
            if form == "PUFFIN":
                return dict(self._vectors(body))
            if form == "PARQUET":
                return dict(self._positions(body))
        except (
            ValueError,
            KeyError,
            TypeError,
            OSError,
            struct.error,
            CorruptEntryError,
            pa.ArrowException,
        ) as error:
            if isinstance(error, UnsupportedFeatureError):
                raise
            raise CorruptDataError(
                f"the deleted rows cannot be read: {error!s:.200}", key=key, rule="IMP-5"
            ) from None
        raise refused(f"the delete file {key!r:.300} is {form}", "import:format")

    def _positions(self, body: bytes) -> Iterator[tuple[str, BitMap64]]:
        found: dict[str, BitMap64] = {}
        for batch in batches_of(body, ["file_path", "pos"], POSITIONS):
            for address, positions in _by_file(batch):
                found[address] = found.get(address, BitMap64()) | positions
        for address, positions in found.items():
            yield self._folder.key(address), positions

    def _vectors(self, body: bytes) -> Iterator[tuple[str, BitMap64]]:
        (length,) = struct.unpack("<i", body[-12:-8])
        if body[:4] != b"PFA1" or body[-4:] != b"PFA1" or not 0 < length < len(body):
            raise ValueError("it is not Puffin")
        if body[-8] & 1:
            raise refused("the footer of a Puffin file is compressed", "import:iceberg")
        for blob in bounded_json(body[-12 - length : -12])["blobs"]:
            if blob["type"] != "deletion-vector-v1" or blob.get("compression-codec"):
                continue
            start, size = int(blob["offset"]), int(blob["length"])
            if start < 0 or size < 0:
                raise ValueError("a blob has no valid place")
            path = self._folder.key(blob["properties"]["referenced-data-file"])
            yield path, framed_positions(body[start : start + size])


def _by_file(batch: pa.RecordBatch) -> Iterator[tuple[str, BitMap64]]:
    """Yield the address of each file in a batch of deleted positions, and its positions.

    Raises:
        ValueError: a position is NULL or negative. KeyError: a column is missing.
    """
    paths, places = batch["file_path"], batch["pos"]
    if paths.null_count or places.null_count:
        raise ValueError("a position or its file is NULL")
    if not pa.types.is_dictionary(paths.type):
        paths = paths.dictionary_encode()
    positions = places.cast(pa.int64()).to_numpy()
    if positions.min(initial=0) < 0:
        raise ValueError("a position is negative")
    codes = paths.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(paths.dictionary) + 1)).tolist()
    for address, start, end in zip(
        paths.dictionary.to_pylist(), edges[:-1], edges[1:], strict=True
    ):
        if start < end:
            yield address, BitMap64(positions[order[start:end]])


def _field(f: Any, *, top: bool = False) -> Field:
    kind = _type(f.field_type, f.name)
    initial, default = f.initial_default, f.write_default
    if (initial is not None or default is not None) and not top:
        raise refused(f"the nested field {f.name!r:.100} has a default", "import:default")
    column = Field(f.field_id, f.name, f.name, kind, not f.required, comment=f.doc or None)
    if default is not None:
        column = replace(column, default=_encoded([default], column)[0])
    if initial is not None:
        column = replace(column, initial=_encoded([initial], column)[0])
    return column


_NAMES = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
}


def _type(kind: Any, name: str) -> Type:
    from pyiceberg import types

    if isinstance(kind, types.StructType):
        return Struct(tuple(_field(f) for f in kind.fields))
    if isinstance(kind, types.ListType):
        return Array(_type(kind.element_type, name), not kind.element_required, kind.element_id)
    if isinstance(kind, types.MapType):
        key, value = _type(kind.key_type, name), _type(kind.value_type, name)
        return Map(key, value, not kind.value_required, kind.key_id, kind.value_id)
    if isinstance(kind, types.DecimalType):
        return Decimal(kind.precision, kind.scale)
    if str(kind) not in _NAMES:
        raise refused(
            f"the column {name!r:.200} has the type {kind} (rule IMP-7)",
            "import:type",
            advice="Change the column's type in Iceberg first.",
        )
    return Primitive(_NAMES[str(kind)])
