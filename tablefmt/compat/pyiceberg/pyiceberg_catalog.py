"""PyIceberg's Catalog as a folder of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tablefmt.compat.pyiceberg.pyiceberg_names import NAMES
from tablefmt.compat.pyiceberg.pyiceberg_partitioning import partitioning_of
from tablefmt.compat.pyiceberg.pyiceberg_table import IDENTIFIERS, Table
from tablefmt.compat.pyiceberg.pyiceberg_transactions import CreateTransaction
from tablefmt.compat.pyiceberg.pyiceberg_updates import arrow_schema
from tablefmt.compat.translation import Translated, translated
from tablefmt.errors import InvalidArgumentError, UnsupportedFeatureError
from tablefmt.model.peer_properties import translate_properties
from tablefmt.model.properties import listed
from tablefmt.operations.alterations import Alteration, combined
from tablefmt.operations.create import definition
from tablefmt.store.location import open_store
from tablefmt.table import create, drop, exists, open

Identifier = str | tuple[str, ...]

STORAGE = {
    "s3.access-key-id": "key",
    "s3.secret-access-key": "secret",
    "s3.session-token": "token",
    "s3.endpoint": "endpoint_url",
}
"""Our storage option by PyIceberg's property."""

UNNEEDED = frozenset({"type", "uri", "py-io-impl", "py-catalog-impl"})
"""Properties of a catalog's service, which a folder does not need."""


@translated(NAMES, "load_catalog")
def load_catalog(name: str | None = None, **properties: Any) -> Catalog:
    """Return a catalog: the folder in the property `warehouse`.

    Raises:
        InvalidArgumentError: no `warehouse`.
        UnsupportedFeatureError: a property without a counterpart.
    """
    options: dict[str, Any] = {}
    for key, value in properties.items():
        if key in STORAGE:
            options[STORAGE[key]] = value
        elif key == "s3.region":
            options["client_kwargs"] = {"region_name": value}
        elif key not in UNNEEDED | {"warehouse"}:
            known = ", ".join(["warehouse", "s3.region", *STORAGE])
            raise UnsupportedFeatureError(
                f"pyiceberg: a catalog has no property {key} here; it may have {known}",
                [f"compat:load_catalog({key})"],
            )
    if not properties.get("warehouse"):
        raise InvalidArgumentError(
            "pyiceberg: a catalog is a folder here; give it as the property warehouse"
        )
    return Catalog(name or "default", str(properties["warehouse"]), options)


class Catalog(Translated):
    """A folder of tables."""

    _names, _called = NAMES, "Catalog"

    def __init__(self, name: str, warehouse: str, storage: Mapping[str, Any]) -> None:
        self.name, self._warehouse = name, warehouse.rstrip("/")
        self._storage = dict(storage) or None

    def _parts(self, identifier: Identifier) -> tuple[str, ...]:
        parts = tuple(identifier.split(".") if isinstance(identifier, str) else identifier)
        if len(parts) < 2 or not all(parts) or any("/" in p or p in (".", "..") for p in parts):
            raise InvalidArgumentError(
                f"pyiceberg: the identifier is {identifier!r}; expected 'namespace.table'"
            )
        return parts

    def _place(self, identifier: Identifier) -> str:
        return "/".join((self._warehouse, *self._parts(identifier)))

    @translated(NAMES, "Catalog.create_table")
    def create_table(
        self,
        identifier: Identifier,
        schema: Any,
        location: str | None = None,
        partition_spec: Any = None,
        sort_order: Any = None,
        properties: Mapping[str, Any] | None = None,
    ) -> Table:
        """Create an empty table. The schema is Arrow's or PyIceberg's.

        Raises:
            TableExistsError: there is one.
            UnsupportedFeatureError: another place, or a partition transform.
        """
        asked = (partition_spec, sort_order, properties)
        return self._create(identifier, schema, location, asked, False)

    @translated(NAMES, "Catalog.create_table_if_not_exists")
    def create_table_if_not_exists(
        self,
        identifier: Identifier,
        schema: Any,
        location: str | None = None,
        partition_spec: Any = None,
        sort_order: Any = None,
        properties: Mapping[str, Any] | None = None,
    ) -> Table:
        """Create an empty table, or open the one that is there."""
        if self.table_exists(identifier):
            return self.load_table(identifier)
        asked = (partition_spec, sort_order, properties)
        return self._create(identifier, schema, location, asked, True)

    @translated(NAMES, "Catalog.create_table_transaction")
    def create_table_transaction(
        self,
        identifier: Identifier,
        schema: Any,
        location: str | None = None,
        partition_spec: Any = None,
        sort_order: Any = None,
        properties: Mapping[str, Any] | None = None,
    ) -> CreateTransaction:
        """Begin to create a table with rows."""

        def make(more: Mapping[str, Any], changes: Sequence[Alteration]) -> Table:
            asked = (partition_spec, sort_order, {**(properties or {}), **more})
            return self._create(identifier, schema, location, asked, False, changes)

        return CreateTransaction(make)

    def _create(
        self,
        identifier: Identifier,
        schema: Any,
        location: str | None,
        asked: tuple[Any, Any, Mapping[str, Any] | None],
        exist_ok: bool,
        changes: Sequence[Alteration] = (),
    ) -> Table:
        """Create a table, if changes to make after it are valid."""
        spec, sort_order, properties = asked
        place = self._place(identifier)
        if location is not None and location.rstrip("/") != place:
            raise UnsupportedFeatureError(
                f"pyiceberg: the identifier places the table at {place}; for another place, use "
                "tablefmt.create(uri, schema)",
                ["compat:Catalog.create_table(location)"],
            )
        columns, by = arrow_schema(schema), partitioning_of(spec, schema)
        if changes:
            combined(changes).change(definition(columns, by, None))
        table = create(
            place,
            columns,
            partition_by=by,
            properties=translate_properties({**(properties or {}), **_identifiers(schema)}),
            cluster_by=_order_columns(sort_order, schema),
            storage_options=self._storage,
            exist_ok=exist_ok,
        )
        return Table(self._parts(identifier), table)

    @translated(NAMES, "Catalog.load_table")
    def load_table(self, identifier: Identifier) -> Table:
        """Open a table."""
        table = open(self._place(identifier), storage_options=self._storage)
        return Table(self._parts(identifier), table)

    @translated(NAMES, "Catalog.table_exists")
    def table_exists(self, identifier: Identifier) -> bool:
        """Return whether there is a table."""
        return exists(self._place(identifier), storage_options=self._storage)

    @translated(NAMES, "Catalog.drop_table")
    def drop_table(self, identifier: Identifier) -> None:
        """Drop a table. Its data files stay."""
        drop(self._place(identifier), storage_options=self._storage)

    @translated(NAMES, "Catalog.purge_table")
    def purge_table(self, identifier: Identifier) -> None:
        """Drop a table and delete its data files."""
        drop(self._place(identifier), delete_data=True, storage_options=self._storage)

    @translated(NAMES, "Catalog.list_tables")
    def list_tables(self, namespace: Identifier) -> list[tuple[str, ...]]:
        """Return the tables of a namespace: one listing for each folder in it."""
        parts = tuple(namespace.split(".") if isinstance(namespace, str) else namespace)
        names = self._folders("/".join((self._warehouse, *parts)))
        return [(*parts, name) for name in names if self.table_exists((*parts, name))]

    @translated(NAMES, "Catalog.list_namespaces")
    def list_namespaces(self, namespace: Identifier = ()) -> list[tuple[str, ...]]:
        """Return the folders of the warehouse, or of a namespace, that have tables.

        A namespace without a table has no folder, and is not listed.
        """
        parts = tuple(namespace.split(".") if isinstance(namespace, str) else namespace)
        names = self._folders("/".join((self._warehouse, *parts)))
        return [(*parts, name) for name in names if self.list_tables((*parts, name))]

    @translated(NAMES, "Catalog.namespace_exists")
    def namespace_exists(self, namespace: Identifier) -> bool:
        """Return whether a namespace has tables."""
        return bool(self.list_tables(namespace))

    @translated(NAMES, "Catalog.drop_namespace")
    def drop_namespace(self, namespace: Identifier) -> None:
        """Do nothing for a namespace without tables.

        Raises:
            InvalidArgumentError: it has tables.
        """
        found = self.list_tables(namespace)
        if found:
            raise InvalidArgumentError(
                f"pyiceberg: the namespace has {len(found)} tables, such as {'.'.join(found[0])}; "
                "drop them first"
            )

    def _folders(self, place: str) -> list[str]:
        """Return the names of the folders in a folder, by one listing for each."""
        store = open_store(place, self._storage)
        found: list[str] = []
        after: str | None = None
        while True:
            first = next(iter(store.list_after("", after)), None)
            if first is None:
                return found
            name, slash, _ = first.key.partition("/")
            if slash:
                found.append(name)
            # The character after the slash: what is in the folder is skipped.
            after = f"{name}0" if slash else first.key

    @translated(NAMES, "Catalog.create_namespace")
    def create_namespace(
        self, namespace: Identifier, properties: Mapping[str, str] | None = None
    ) -> None:
        """Do nothing but check the name: a namespace is a folder."""
        self._parts((*([namespace] if isinstance(namespace, str) else namespace), "table"))

    @translated(NAMES, "Catalog.create_namespace_if_not_exists")
    def create_namespace_if_not_exists(
        self, namespace: Identifier, properties: Mapping[str, str] | None = None
    ) -> None:
        """Do the same as `create_namespace`."""
        self.create_namespace(namespace)

    def close(self) -> None:
        """Do nothing: a folder has no connection."""


def _identifiers(schema: Any) -> dict[str, str]:
    """Return the property that keeps the identifier fields of a schema of PyIceberg."""
    ids = getattr(schema, "identifier_field_ids", ())
    names = [schema.find_column_name(each) for each in ids]
    return {IDENTIFIERS: listed(names)} if names else {}


def _order_columns(order: Any, schema: Any) -> list[str]:
    """Return the columns of a sort order of PyIceberg.

    Raises:
        UnsupportedFeatureError: another order than ascending by columns.
    """
    names = []
    for each in getattr(order, "fields", ()):
        if str(each.transform) != "identity" or "desc" in str(each.direction).lower():
            raise UnsupportedFeatureError(
                f"pyiceberg: the sort order {each} is not supported; rows are sorted ascending by "
                "columns",
                ["compat:Catalog.create_table(sort_order)"],
            )
        names.append(schema.find_column_name(each.source_id))
    return names
