"""Export to Iceberg, formats 2 and 3: which objects one version of the table becomes.

A metadata file decides: `metadata/v<n + 1>.metadata.json`, created only if absent. It names a
manifest list, which names manifests of data files and of delete files. All of them are written
before.

Iceberg's readers need ids of list elements, map keys and map values in data files. Some engines
write none, and the log does not say so (DAT-1). So the footers of new files are read, one for each
folder: the files of a transaction come from one engine. Spec: XPT-20 .. XPT-28.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.file_checksum import read_ends
from tablefmt.errors import CorruptTableError, ExportBlockedError, TablefmtError
from tablefmt.export.avro_file import ADVICE
from tablefmt.export.export_target import Fetch, ForeignCommit, Mark, Step, checked_version
from tablefmt.export.iceberg_commit import Before, before_of, make_snapshot
from tablefmt.export.iceberg_manifests import FOLDER
from tablefmt.export.iceberg_metadata import (
    ENTRY,
    HINT,
    NEXT_ID,
    SHOWN,
    TABLE,
    VERSION,
    held_document,
    metadata_key,
)
from tablefmt.export.iceberg_names import twice_mapped
from tablefmt.export.iceberg_schema import (
    Json,
    Types,
    ambiguous_names,
    initial_columns,
    list_columns,
    refused_promotions,
    variant_columns,
)
from tablefmt.export.written_columns import WrittenColumns, live_imports
from tablefmt.log.bounded_avro import AVRO_ERRORS
from tablefmt.log.bounded_parquet import footer_of
from tablefmt.log.strict_json import bounded_json
from tablefmt.model.arrow_types import FIELD_ID
from tablefmt.model.import_layouts import NUMBER
from tablefmt.model.log_entry import Metadata
from tablefmt.model.properties import get_property
from tablefmt.model.schema import all_fields, id_types
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.import_roots import folder_of
from tablefmt.store.object_store import KeyNotFoundError, Store

NAME = "iceberg"

_METADATA_FILE = re.compile(r"metadata/v([0-9]{1,19})\.metadata\.json")


class IcebergTarget:
    """Metadata of an Iceberg table beside the log, over the same data files."""

    def __init__(self, form: str = "auto") -> None:
        """Create a target.

        Args:
            form: format of tables without the property `export.iceberg.format`: auto, 2 or 3.
        """
        self._form = form
        self._columns = WrittenColumns()
        self._accepted: dict[str, int] = {}
        """File id by table, below which every file that is live has been checked for ids."""
        self._hinted: int | None = None
        """Version that the hint is known to name; None if there is no readable hint."""

    name = NAME
    start_key = FOLDER + "tablefmt-start.json"

    def newest(self, store: Store) -> tuple[str, bytes] | None:
        """Return key and bytes of the newest metadata file, by any program; None for none.

        The hint says where to begin. Without one, a listing does.
        """
        hinted = None
        try:
            hinted = checked_version(store.get(HINT)) - 1
        except (KeyNotFoundError, ValueError):
            pass
        version = _listed(store) if hinted is None else hinted
        found = None
        self._hinted = hinted
        while version >= 0:
            key = metadata_key(version)
            try:
                found = key, store.get(key)
            except KeyNotFoundError:
                break
            version += 1
        if found is None and hinted is not None and (version := _listed(store)) >= 0:
            key = metadata_key(version)
            found = key, store.get(key)
        return found

    def read_mark(self, body: bytes) -> Mark | None:
        """Return the mark of a metadata file; None if another program wrote it.

        A program that commits to the table keeps its properties, so the snapshot must agree.
        """
        try:
            made = bounded_json(body)
            properties = made["properties"]
            version = checked_version(properties[VERSION])
            shown = checked_version(properties[SHOWN], version)
            ours = made["current-snapshot-id"] == shown + 1
            if not ours or made["snapshots"][-1]["snapshot-id"] != shown + 1:
                return None
            self._accepted[properties[TABLE]] = int(properties[NEXT_ID])
            return Mark(
                table=properties[TABLE],
                version=version,
                entry=str(properties[ENTRY]),
                shown=shown,
                state={"document": made},
            )
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return None

    def cannot_show(self, view: LogView, version: int) -> str:
        """Return the reason why Iceberg cannot show the rows of a version, or ""."""
        metadata = view.metadata_at(version)
        if reason := imported_problem(view, version):
            return f"{reason}. Rewrite the imported files with Table.compact(kind='major')"
        written = self._written(view, version)
        for name, old, new in refused_promotions(metadata.schema, written):
            return (
                f"column {name!r} was widened from {old} to {new}, which Iceberg's readers cannot "
                "do. Compact the files from before, so that all have the new type"
            )
        if names := ambiguous_names(metadata.schema):
            return (
                f"Iceberg cannot tell two columns apart that are both {names[0]!r}: it joins the "
                "names of nested fields with dots. Rename one of them"
            )
        if columns := list_columns(metadata.schema):
            snapshot = view.snapshot(version)
            files = snapshot.files_with({"path", "size", NUMBER})
            accepted = self._accepted.get(snapshot.table_id, 0)
            new = files.filter(pc.greater_equal(files["id"], accepted)) if files.num_rows else files
            if NUMBER in new.column_names:
                # An import says how elements are found (XPT-29).
                new = new.filter(pc.is_null(new[NUMBER]))
            if path := file_without_ids(view.store, new):
                return (
                    f"{path} has no ids for the elements of column {columns[0]!r}, which Iceberg's "
                    "readers need: Spark wrote it. Compact the files with Table.compact()"
                )
        if self.form_wanted(metadata) != "2":
            return ""
        if columns := variant_columns(metadata.schema):
            return f"column {columns[0]!r} is a variant, which needs export.iceberg.format=3"
        if columns := initial_columns(metadata.schema, written):
            return (
                f"column {columns[0]!r} has a default that older files lack, which needs "
                "export.iceberg.format=3. Or compact these files"
            )
        return ""

    def begin(self, view: LogView, step: Step, fetch: Fetch) -> Sequence[tuple[str, bytes]]:
        """Return nothing: the first metadata file needs no other object than its own."""
        return ()

    def commit(self, step: Step, fetch: Fetch) -> ForeignCommit:
        """Return the metadata file of a version, with its manifests and delete files.

        Raises:
            ExportBlockedError: the copy was made at another address.
            CorruptTableError: the version before cannot be read.
        """
        try:
            return self._made(step, fetch)
        except AVRO_ERRORS as error:
            if step.previous is None or isinstance(error, TablefmtError):
                raise
            # Anybody may have written the metadata that this version continues.
            raise CorruptTableError(
                f"the copy's metadata has an unexpected structure: {error!r:.200}",
                key=metadata_key(step.previous.version),
                rule="XPT-22",
                advice=ADVICE,
            ) from error

    def _made(self, step: Step, fetch: Fetch) -> ForeignCommit:
        """Return the objects that show one version in the copy."""
        location, mark = location_of(step.uri), step.previous
        key = metadata_key(step.stored.version)
        known: Json | None = None
        before: Before | None = None
        if mark is not None:
            known = mark.state["document"]
            if known["location"] != location:
                why = f"it is of a table at {known['location']}, and its addresses are absolute"
                raise ExportBlockedError(step.uri, NAME, metadata_key(mark.version), why)
            if step.difference is None:
                body = held_document(step.stored, mark.shown, known)
                return self._commit(step, key, body, mark.shown, {**mark.state, "document": body})
            listed = mark.state.get("manifests")
            before = before_of(known, location, fetch) if listed is None else Before(known, listed)
        assert step.difference is not None
        keep = int(get_property(step.metadata.properties, "export.iceberg.snapshots"))
        form = self._form_of(step, known)
        made = make_snapshot(
            step,
            step.difference,
            before,
            form=form,
            location=location,
            roots=roots_of(step),
            keep=keep,
            fetch=fetch,
        )
        state = {"document": made.document, "manifests": made.manifests}
        objects = [(each.key, each.body) for each in made.objects]
        return self._commit(step, key, made.document, step.stored.version, state, objects)

    def _commit(
        self,
        step: Step,
        key: str,
        body: Json,
        shown: int,
        state: Json,
        before: Sequence[tuple[str, bytes]] = (),
    ) -> ForeignCommit:
        stored = step.stored
        self._accepted[stored.entry.table] = int(body["properties"][NEXT_ID])
        mark = Mark(
            table=stored.entry.table,
            version=stored.version,
            entry=stored.digest,
            shown=shown,
            state=state,
        )
        return ForeignCommit(key=key, body=orjson.dumps(body), mark=mark, before=before)

    def form_wanted(self, metadata: Metadata) -> str:
        """Return the format that a table asks for: auto, 2 or 3."""
        return metadata.properties.get("export.iceberg.format", self._form)

    def _form_of(self, step: Step, known: Json | None) -> int:
        """Return the format of a version: 2 until it needs 3, and never less than before."""
        wanted, schema = self.form_wanted(step.metadata), step.metadata.schema
        if wanted == "3" or (known is not None and known["format-version"] >= 3):
            return 3
        if wanted == "2":
            return 2
        if variant_columns(schema):
            return 3
        if not any(field.initial is not None for field in all_fields(schema)):
            return 2
        written = self._written(step.view, step.stored.version)
        return 3 if initial_columns(schema, written) else 2

    def _written(self, view: LogView, version: int) -> list[Types]:
        """Return the columns of the live files, for each schema they were written under.

        An imported file may lack any column.
        """
        if view.metadata_version_at(version) == 0 and not view.totals_at(0).files:
            eras: list[Types] = [id_types(view.metadata_at(version).schema)]
        else:
            eras = self._columns.of(view, view.snapshot(version))
        return [*eras, {}] if live_imports(view, version) else eras

    def afterwards(self, view: LogView, mark: Mark, store: Store) -> int:
        """Write the hint, by which readers find the newest metadata file in the folder."""
        body = str(mark.version + 1).encode()
        store.put(HINT, body)
        self._hinted = mark.version
        return len(body)

    def agrees(self, key: str, body: bytes, fetch: Fetch) -> bool:
        """Return True if the object is there: its name has the digest (XPT-20).

        A store may answer that a name is taken, and have nothing there.
        """
        fetch(key)
        return True

    def lacks_hint(self, mark: Mark) -> bool:
        """Return whether the hint is lost or old: an exporter may die before it writes one."""
        return self._hinted != mark.version


def imported_problem(view: LogView, version: int) -> str:
    """Return why readers of Iceberg cannot read the live imported files; "". Spec: XPT-29."""
    live, metadata = live_imports(view, version), view.metadata_at(version)
    for number, path in sorted(live.items()):
        if metadata.imports[number].lookup is None:
            return (
                f"{path} is an imported file, and readers of Iceberg would not find its columns. "
                "Some have field ids of another table, a type that Iceberg lacks (INT96 too), the "
                "name of another column, or values that differ from the partition's, or the table "
                "is a clone"
            )
    if live and (name := twice_mapped(metadata)):
        return f"two columns have the name {name!r} in imported files"
    return ""


def roots_of(step: Step) -> dict[int, str]:
    """Return the addresses of folders outside the table with live files, by import.

    Raises:
        UnsupportedFeatureError: IMP-3, the user does not allow one.
    """
    imports = {n: each for n, each in step.metadata.imports.items() if each.root}
    for number in live_imports(step.view, step.stored.version) if imports else ():
        if number in imports:
            folder_of(step.view.store, imports[number].root)
    return {number: location_of(each.root.rstrip("/")) for number, each in imports.items()}


def location_of(uri: str) -> str:
    """Return the address of a table as Iceberg's metadata has it: absolute, with a scheme."""
    return uri if "://" in uri else "file://" + uri


def _listed(store: Store) -> int:
    """Return the newest version with a metadata file, from a listing; -1 for none."""
    matches = (_METADATA_FILE.fullmatch(each.key) for each in store.list_after(FOLDER))
    return max((int(match[1]) - 1 for match in matches if match is not None), default=-1)


def file_without_ids(store: Store, files: pa.Table) -> str:
    """Return the path of a file that has a list or a map without ids inside; "" for none.

    Args:
        store: the table's root.
        files: with `path` and `size`.

    Raises:
        CorruptTableError: a file is missing or damaged.
    """
    chosen: dict[str, tuple[str, int]] = {}
    for path, size in zip(files["path"].to_pylist(), files["size"].to_pylist(), strict=True):
        chosen.setdefault(path.rpartition("/")[0], (path, size))
    ends = read_ends(store, list(chosen.values()))
    for (path, _), end in zip(chosen.values(), ends, strict=True):
        if end is None:
            raise CorruptTableError("it is missing", key=path, rule="DAT-5")
        if any(lacks_ids(column.type) for column in footer_of(end.body).schema.to_arrow_schema()):
            return path
    return ""


def lacks_ids(kind: pa.DataType) -> bool:
    """Return True if a list or a map in a type has no field id for its elements."""
    inside = [kind.field(at) for at in range(kind.num_fields)]
    if pa.types.is_map(kind):
        inside = [kind.key_field, kind.item_field]
    if not pa.types.is_struct(kind) and any(FIELD_ID not in (f.metadata or {}) for f in inside):
        return True
    return any(lacks_ids(field.type) for field in inside)
