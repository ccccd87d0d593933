"""Registration of an Iceberg copy with a catalog, through PyIceberg. Spec: XPT-28."""

from __future__ import annotations

import re
from typing import Any

from tablefmt.data.arrow_results import missing_extra
from tablefmt.errors import (
    ExportBlockedError,
    InvalidArgumentError,
    StoreError,
    TablefmtError,
)
from tablefmt.export.export_target import Mark, checked_version
from tablefmt.export.iceberg_metadata import PROPERTIES, TABLE, VERSION

_NAME = re.compile(r"[0-9A-Za-z-]+\.avro")
"""Name of a manifest list. It has no slash, and nothing that a reader may decode."""


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
            f"cannot open the catalog {catalog!r}: {_said(error)}. Pass the name of a catalog in "
            "PyIceberg's configuration"
        ) from None


def register(catalog: Any, name: str, metadata: str, mark: Mark, uri: str) -> str:
    """Let a name in a catalog point at a metadata file, unless it points at a newer one.

    Args:
        catalog: of PyIceberg.
        name: namespace and table, joined by dots. A missing namespace is created.
        metadata: address of the metadata file.
        mark: mark of that file, with its document.
        uri: address of the table, for errors.

    Returns:
        The address that the catalog has now.

    Raises:
        ExportBlockedError: the name belongs to another table, or the file says what no exporter
            writes.
        InvalidArgumentError: the name has no namespace.
        StoreError: the catalog cannot do it.
    """
    namespace, _, table = name.rpartition(".")
    if not namespace or not table:
        raise InvalidArgumentError(
            f"table is {name!r}; expected a namespace and a name, such as 'sales.orders'"
        )
    problem = obeyed_problem(mark.state["document"], metadata)
    if problem:
        raise ExportBlockedError(uri, "iceberg", metadata, problem)
    try:
        return _registered(catalog, namespace, name, metadata, mark, uri)
    except TablefmtError:
        raise
    except Exception as error:
        # Catalogs raise errors of many libraries.
        raise StoreError(
            f"the copy at {metadata} is written, but the catalog could not register it as "
            f"{name!r}: {type(error).__name__}: {_said(error)}. Export again to register it."
        ) from None


_USER = re.compile(r"(?<=://)\S*@")
_SIGNED = re.compile(
    r"(?i)([?&;][\w.-]*(?:sig|token|secret|password|pwd|credential|key)[\w.-]*=)[^&;\s]+"
)


def _said(error: Exception) -> str:
    """Return the message of a catalog's error without credentials in addresses (STO-13)."""
    return _SIGNED.sub(r"\1…", _USER.sub("…@", str(error)))[:300]


def obeyed_problem(document: Any, metadata: str) -> str:
    """Return what a metadata file says that no exporter writes, and readers would obey; "" for
    nothing. Pure. Spec: XPT-28.

    Args:
        document: its content, which anybody may have written.
        metadata: its address.
    """
    folder = metadata.rpartition("/")[0]
    location = folder.rpartition("/")[0]
    try:
        if document["location"] != location:
            return f"its location is {document['location']!r:.200}"
        if foreign := sorted(set(document["properties"]) - PROPERTIES):
            return f"it has the property {foreign[0]!r:.200}"
        for snapshot in document["snapshots"]:
            place = snapshot["manifest-list"]
            if not place.startswith(f"{folder}/") or not _NAME.fullmatch(place, len(folder) + 1):
                return f"a snapshot names {place!r:.200}"
    except (AttributeError, LookupError, TypeError) as error:
        return f"it has an unexpected structure: {error!r:.200}"
    return ""


def _registered(
    catalog: Any, namespace: str, name: str, metadata: str, mark: Mark, uri: str
) -> str:
    from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError

    try:
        catalog.create_namespace(namespace)
    except NamespaceAlreadyExistsError:
        pass
    try:
        known = catalog.load_table(name)
    except NoSuchTableError:
        return str(catalog.register_table(name, metadata).metadata_location)
    if known.properties.get(TABLE) != mark.table:
        why = f"the catalog has another table with the name {name}"
        raise ExportBlockedError(uri, "iceberg", known.metadata_location, why)
    here = known.metadata_location.rpartition("/")[0] == metadata.rpartition("/")[0]
    if here and checked_version(known.properties.get(VERSION, "0")) >= mark.version:
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
