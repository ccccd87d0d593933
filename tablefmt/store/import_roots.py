"""Folders outside a table that its imported files may be in, by the user's allow-list.

A log must not be able to point a reader at any bucket. So a folder outside the table is opened only
if the storage option `import_roots` allows it, and for reading alone. Spec: IMP-3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from tablefmt.errors import StoreError, UnsupportedFeatureError
from tablefmt.store.object_store import Store
from tablefmt.store.store_traits import Traits
from tablefmt.store.store_wrappers import ForwardingStore, ReadOnlyStore

OPTION = "import_roots"
"""Storage option with the allowed folders: a list, or text with commas between."""

_Opener: TypeAlias = Callable[[str, Mapping[str, Any]], Store]


class ImportingStore(ForwardingStore):
    """Forwards to the table's store, and opens the allowed folders outside the table."""

    def __init__(
        self, inner: Store, roots: Mapping[str, Mapping[str, Any]], opener: _Opener
    ) -> None:
        """Take the table's store.

        Args:
            inner: the table's store.
            roots: storage options by the address of an allowed folder, in the form of `Store.uri`.
            opener: opens the store at an address with storage options.
        """
        super().__init__(inner)
        self._roots = dict(roots)
        self._opener = opener
        self._opened: dict[str, Store] = {}

    @property
    def traits(self) -> Traits:
        """The inner store's traits, and that the table may have imported files."""
        return replace(self.inner.traits, imports=True)

    def folder(self, root: str) -> Store | None:
        """Return the store of an allowed folder, read-only; None if it is not allowed."""
        above = [one for one in self._roots if f"{root}/".startswith(one.rstrip("/") + "/")]
        if not above or ".." in root.split("/"):
            return self.inner.folder(root)
        if root not in self._opened:
            self._opened[root] = ReadOnlyStore(self._opener(root, self._roots[above[0]]))
        return self._opened[root]

    def with_credentials(self) -> Store:
        """Return this store for another machine. The allowed folders get credentials, too."""
        roots = {
            root: self._opener(root, options).portable_options()
            for root, options in self._roots.items()
        }
        return ImportingStore(self.inner.with_credentials(), roots, self._opener)


def with_imports(store: Store) -> Store:
    """Return the store of a table with imported files. Code that reads them finds out by it."""
    return store if store.traits.imports else ImportingStore(store, {}, _none_allowed)


def _none_allowed(root: str, options: Mapping[str, Any]) -> Store:
    raise AssertionError(root)


def roots_of(value: Any) -> list[str]:
    """Return the addresses in the storage option.

    Raises:
        StoreError: it is neither text nor a list of texts.
    """
    roots = value.split(",") if isinstance(value, str) else value
    if not isinstance(roots, list | tuple) or not all(isinstance(r, str) for r in roots):
        found = type(value).__name__
        raise StoreError(
            f"{OPTION}: expected a list of addresses, or text with commas between, got {found}."
        )
    return [root.strip() for root in roots if root.strip()]


def folder_of(store: Store, root: str) -> Store:
    """Return the store of an import's root.

    Args:
        store: the table's store.
        root: the root; "" for the table's own folder.

    Raises:
        UnsupportedFeatureError: IMP-3, the folder is outside the table, and not allowed.
    """
    if not root:
        return store
    folder = store.folder(root)
    if folder is not None:
        return folder
    raise UnsupportedFeatureError(
        f"files of the table at {store.uri} are in the folder {root!r:.300}, outside the table "
        f"(rule IMP-3). If you trust the folder, open the table with the storage option "
        f"{OPTION}={root!r:.300}.",
        ["import-root"],
    )
