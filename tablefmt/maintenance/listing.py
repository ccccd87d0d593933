"""Objects of a table's folders as columns. No object of Python is kept for one of the store's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.store.protocol import Store, StoredObject

_BATCH = 1024

LISTING = pa.schema([("key", pa.string()), ("size", pa.int64()), ("modified_us", pa.int64())])


def listed(store: Store, prefixes: Sequence[str]) -> pa.Table:
    """The objects whose keys begin with one of the prefixes: LISTING, by prefix in order."""
    batches = [batch for prefix in prefixes for batch in _batches(store.list_after(prefix))]
    return pa.Table.from_batches(batches, LISTING)


def bytes_of(objects: pa.Table, without: Iterable[str] = ()) -> int:
    """What objects with `path` and `size` take together, but for some of them."""
    stay = pc.is_in(objects["path"], value_set=pa.array(without, pa.string()))
    return int(pc.sum(objects["size"].filter(pc.invert(stay))).as_py() or 0)


def _batches(objects: Iterator[StoredObject]) -> Iterator[pa.RecordBatch]:
    objects = iter(objects)
    while some := list(islice(objects, _BATCH)):
        columns = zip(*((one.key, one.size, one.modified_us) for one in some), strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, LISTING, strict=True)]
        yield pa.record_batch(arrays, schema=LISTING)
