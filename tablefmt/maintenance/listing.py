"""Listings of a table's folders as Arrow columns, without a Python object for each key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.store.protocol import Store, StoredObject

_BATCH = 1024

LISTING = pa.schema([("key", pa.string()), ("size", pa.int64()), ("modified_us", pa.int64())])


def listed(store: Store, prefixes: Sequence[str]) -> pa.Table:
    """Return the objects with one of the prefixes, as LISTING, in the order of the prefixes."""
    batches = [batch for prefix in prefixes for batch in _batches(store.list_after(prefix))]
    return pa.Table.from_batches(batches, LISTING)


def bytes_of(objects: pa.Table, without: Iterable[str] = ()) -> int:
    """Return the total bytes of objects with `path` and `size`, except some paths."""
    stay = pc.is_in(objects["path"], value_set=pa.array(without, pa.string()))
    return int(pc.sum(objects["size"].filter(pc.invert(stay))).as_py() or 0)


def _batches(objects: Iterator[StoredObject]) -> Iterator[pa.RecordBatch]:
    objects = iter(objects)
    while some := list(islice(objects, _BATCH)):
        columns = zip(*((one.key, one.size, one.modified_us) for one in some), strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, LISTING, strict=True)]
        yield pa.record_batch(arrays, schema=LISTING)
