"""Registration of an Iceberg copy with a catalog, through PyIceberg. Spec: XPT-28."""

from __future__ import annotations

from typing import Any

import orjson

from tablefmt.data.arrow_results import missing_extra
from tablefmt.errors import ExportBlockedError, InvalidArgumentError
from tablefmt.export.iceberg_metadata import TABLE, VERSION


def open_catalog(catalog: Any) -> Any:
    """Return a catalog of PyIceberg.

    Args:
        catalog: its name in PyIceberg's configuration (`.pyiceberg.yaml`, environment), or the
            catalog itself.

    Raises:
        UnsupportedFeatureError: PyIceberg is not installed.
        InvalidArgumentError: there is no such catalog.
    """
    if not isinstance(catalog, str):
        if not hasattr(catalog, "register_table"):
            raise InvalidArgumentError(
                f"catalog is {catalog!r:.100}; expected the name of a catalog, or a catalog of "
                "PyIceberg"
            )
        return catalog
    try:
        from pyiceberg.catalog import load_catalog
    except ModuleNotFoundError as error:
        raise missing_extra("iceberg", error) from None
    try:
        return load_catalog(catalog)
    except Exception as error:
        raise InvalidArgumentError(
            f"cannot open the catalog {catalog!r}: {error}. Name one of PyIceberg's configuration"
        ) from None


def register(catalog: Any, name: str, metadata: str, body: bytes, uri: str) -> str:
    """Let a name in a catalog point at a metadata file, unless it points at a newer one.

    Args:
        catalog: of PyIceberg.
        name: namespace and table, joined by dots. A missing namespace is created.
        metadata: address of the metadata file.
        body: its content.
        uri: address of the table, for errors.

    Returns:
        The address that the catalog has now.

    Raises:
        ExportBlockedError: the name belongs to another table.
        InvalidArgumentError: the name has no namespace.
    """
    from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError

    namespace, _, table = name.rpartition(".")
    if not namespace or not table:
        raise InvalidArgumentError(
            f"table is {name!r}; expected a namespace and a name, such as 'sales.orders'"
        )
    try:
        catalog.create_namespace(namespace)
    except NamespaceAlreadyExistsError:
        pass
    try:
        known = catalog.load_table(name)
    except NoSuchTableError:
        return str(catalog.register_table(name, metadata).metadata_location)
    properties = orjson.loads(body)["properties"]
    if known.properties.get(TABLE) != properties[TABLE]:
        why = f"{name} is another table in the catalog"
        raise ExportBlockedError(uri, "iceberg", known.metadata_location, why)
    here = known.metadata_location.rpartition("/")[0] == metadata.rpartition("/")[0]
    if here and int(known.properties.get(VERSION, -1)) >= int(properties[VERSION]):
        return str(known.metadata_location)
    return _moved(catalog, name, metadata, known.metadata_location)


def _moved(catalog: Any, name: str, metadata: str, former: str) -> str:
    """Point a name at another metadata file.

    Some catalogs cannot replace. There the name is missing for a moment.
    """
    try:
        return str(catalog.register_table(name, metadata, overwrite=True).metadata_location)
    except (NotImplementedError, TypeError):
        pass
    catalog.drop_table(name)
    try:
        return str(catalog.register_table(name, metadata).metadata_location)
    except BaseException:
        catalog.register_table(name, former)
        raise
