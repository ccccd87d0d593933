"""Verification of data files: diagnosis of damage, and verified footers for other engines.

Other engines need the columns of the files before they read. Spec: ADD-7, DAT-4, DAT-5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tablefmt.data.arrow_scanner import is_known
from tablefmt.data.file_checksum import End, footer_length, read_ends
from tablefmt.data.file_prefetch import open_data_file
from tablefmt.errors import CorruptDataError, StoreError, UnsupportedFeatureError
from tablefmt.log.bounded_parquet import EXPANDED_FREE, footer_of, most_expanded
from tablefmt.log.parquet_footer import rows_after, schema_bytes
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.defaults import default_array
from tablefmt.model.import_layouts import has_own_names
from tablefmt.model.schema import Field
from tablefmt.store.object_store import KeyNotFoundError, Store

# Damage can cause any of these: bytes that are not UTF-8, huge lengths, unknown types.
DAMAGE = (OSError, pa.ArrowException, StoreError, KeyNotFoundError, MemoryError, ValueError)


MISSING = "it is missing"
"""Problem of a file that is not there."""


def check_file(
    store: Store,
    path: str,
    size: int,
    rows: int,
    *,
    deep: bool,
    footer: int | None = None,
    see: Callable[[pa.RecordBatch], None] | None = None,
) -> str | None:
    """Return the problem of one data file, or None if it is sound.

    Args:
        store: the store with the file.
        path: its key.
        size: length in bytes by the log.
        rows: row count by the log.
        deep: read every page and verify its checksum; otherwise check length and footer only.
        footer: its checksum in the log (ADD-7), if the log has it.
        see: called with the rows that a deep check reads, with physical names.

    Raises:
        StoreError: the store cannot answer.
    """
    try:
        (end,) = read_ends(store, [(path, size)])
        if end is None:
            return MISSING
        if end.beyond or end.start + len(end.body) != size:
            return f"it is {store.size(path)} bytes long, but the log says {size}"
        if not end.is_sound(size, footer):
            return "its footer bytes do not match the checksum in the log"
        # Parquet locates the footer from the file's end, so the last bytes suffice.
        metadata = footer_of(end.body)
        if metadata.num_rows != rows:
            return f"it holds {metadata.num_rows} rows, but the log says {rows}"
        if deep:
            with open_data_file(store, path, size) as source:
                file = pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True)
                for batch in file.iter_batches():
                    if see is not None:
                        see(batch)
    except KeyNotFoundError:
        return MISSING
    except DAMAGE as error:
        if is_no_answer(store, error):
            raise
        return f"it cannot be read: {first_line(error)}"
    return None


def check_masks(files: pa.Table) -> None:
    """Check that a mask of the rows of each file that has lost some takes bounded memory (STO-25).

    An entry may say any number of rows, and a mask has a byte for each of them.

    Args:
        files: `path`, `size`, `rows`, and `vector` where rows are deleted.

    Raises:
        CorruptDataError: DEL-1, a file is too short for its rows.
    """
    if "vector" not in files.column_names:
        return
    rows, sizes = (files[name].to_numpy() for name in ("rows", "size"))
    with_vector = files["vector"].is_valid().to_numpy()
    for at in np.flatnonzero(with_vector & (rows > EXPANDED_FREE)).tolist():
        if rows[at] > most_expanded(int(sizes[at])):
            problem = f"the log says {rows[at]} rows, too many for its {sizes[at]} bytes"
            raise CorruptDataError(problem, key=files["path"][at].as_py(), rule="DEL-1")


def is_no_answer(store: Store, error: BaseException) -> bool:
    """Return whether an error says nothing about the file.

    A permanent refusal of a local disk, such as a symbolic link, does concern the file.
    """
    return isinstance(error, StoreError) and (store.traits.remote or error.retryable)


def first_problem(store: Store, files: pa.Table) -> tuple[str, str] | None:
    """Return the first damaged file, and its problem; every page is read."""
    for path, size, rows, footer in described(files):
        problem = check_file(store, path, size, rows, deep=True, footer=footer)
        if problem is not None:
            return path, problem
    return None


def described(files: pa.Table) -> list[tuple[str, int, int, int | None]]:
    """Return path, size, rows and checksum of each file."""
    names = ("path", "size", "rows")
    columns = [files[name].to_pylist() for name in names]
    known = "footer" in files.column_names
    columns.append(files["footer"].to_pylist() if known else [None] * files.num_rows)
    return list(zip(*columns, strict=True))


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, for use in a message."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


GROUP_FILES = 256
"""Files whose footer bytes are in memory at once."""

THREADS = 4
"""Footers decoded in parallel."""

FEW_FILES = 32
"""Footers of so few files are decoded sooner than threads start."""

_File = tuple[str, int, int, int | None]  # evaluated at run time in 3.10
"""Path, size, rows, and the checksum of the footer if the log has it."""


@dataclass(frozen=True, slots=True, eq=False)
class AlikeFiles:
    """Files that a reader can treat alike."""

    files: pa.Table
    """The log's columns of the files."""
    columns: pa.Schema
    """The columns of the files, with physical names."""
    known: dict[int, pa.Scalar]
    """Values, or NULL, that the log has for columns that the files lack, by field id (DAT-8)."""

    def lacked(self, column: Field) -> pa.Scalar:
        """Return the constant value of a column that these files lack: DAT-4, DAT-8, SCH-7."""
        if column.id in self.known:
            return self.known[column.id]
        if column.initial is None:
            return pa.scalar(None, arrow_type(column.type))
        return default_array(column.initial, column.type)[0]


KeepEnd = Callable[[str, int, bytes], None]
"""Receives the path and the length of a file, and its verified footer bytes."""


def alike_files(
    store: Store, files: pa.Table, columns: Sequence[Field], keep: KeepEnd | None = None
) -> list[AlikeFiles]:
    """Return the files grouped by their columns, with verified footer bytes.

    Args:
        store: the store with the files.
        files: `path`, `size`, `rows`, optionally `footer`, and the partition values.
        columns: the columns that will be read.
        keep: called with the footer bytes of every file.

    Raises:
        CorruptDataError: DAT-5, ADD-7: a file is missing, has another length or row count, or its
            footer bytes do not match the checksum.
        StoreError: the store gives no answer.
    """
    check_masks(files)
    check_plain_layout(files)
    layouts: dict[pa.Schema, int] = {}
    of_file: list[int] = []
    # The hash of a schema takes longer than the rest, and most files share one object.
    numbers: dict[int, tuple[int, pa.Schema]] = {}
    for each in _schemas(store, files, keep):
        if id(each) not in numbers:
            numbers[id(each)] = layouts.setdefault(each, len(layouts)), each
        of_file.append(numbers[id(each)][0])
    groups = []
    for layout, number in layouts.items():
        same = files.filter(pa.array(np.array(of_file) == number))
        there = frozenset(layout.names)
        lacking = [c for c in columns if c.physical not in there and is_known(same, c)]
        groups += [AlikeFiles(part, layout, known) for part, known in _by_values(same, lacking)]
    return groups


def check_plain_layout(files: pa.Table) -> None:
    """Refuse imported files with names of their own, for engines that read files by themselves.

    Raises:
        UnsupportedFeatureError: IMP-4.
    """
    if has_own_names(files):
        raise UnsupportedFeatureError(
            "this engine cannot read imported files whose column names differ from the "
            "table's stored names (rule IMP-4). Read "
            "with Table.scan() or Table.to_arrow(), or compact the table first.",
            ["import-names"],
        )


def sorted_out(files: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the files without deleted rows, and the others."""
    if "vector" not in files.column_names:
        return files, files.slice(0, 0)
    whole = pc.is_null(files["vector"])
    return files.filter(whole), files.filter(pc.invert(whole))


def _schemas(store: Store, files: pa.Table, keep: KeepEnd | None) -> Iterator[pa.Schema]:
    known: dict[bytes, pa.Schema] = {}
    for start in range(0, files.num_rows, GROUP_FILES):
        group = described(files.slice(start, GROUP_FILES))
        ends = _ends(store, group)
        bodies = [
            end.body if end is not None and end.is_sound(size, footer) else b""
            for end, (_, size, _, footer) in zip(ends, group, strict=True)
        ]
        for schema, one, body in zip(_layouts(bodies, group, known), group, bodies, strict=True):
            if schema is None:
                raise _damage(store, one)
            if keep is not None:
                keep(one[0], one[1], body)
            yield schema


def _layouts(
    bodies: Sequence[bytes], group: Sequence[_File], known: dict[bytes, pa.Schema]
) -> list[pa.Schema | None]:
    """Return the columns by each footer; None for a footer that is not that of its file.

    Args:
        bodies: the last bytes of the files.
        group: the files.
        known: columns by the stored bytes of a schema, which may grow.
    """
    found: list[pa.Schema | None] = [None] * len(group)
    left: list[int] = []
    for at, (body, file) in enumerate(zip(bodies, group, strict=True)):
        if file[3] is None:
            left.append(at)
            continue
        found[at] = _known_layout(body, file, known)
        if found[at] is None:
            found[at] = _layout(body, file)
            _learn(body, found[at], known)
    if len(left) <= FEW_FILES:
        parsed = [_layout(bodies[at], group[at]) for at in left]
    else:
        with ThreadPoolExecutor(THREADS) as pool:
            parsed = list(pool.map(lambda at: _layout(bodies[at], group[at]), left))
    for at, schema in zip(left, parsed, strict=True):
        found[at] = schema
    return found


LAYOUTS_KNOWN = 16
"""Schemas by which footers are recognized. The files of a table have few."""

_ARROW_SCHEMA = b"ARROW:schema"
"""Name under which a footer may hold a second schema, by which Arrow reads other types."""


def _known_layout(body: bytes, file: _File, known: Mapping[bytes, pa.Schema]) -> pa.Schema | None:
    """Return the columns by a footer with a known schema; None: parse the footer.

    The log has a checksum of the footer, which was verified. So only the schema and the number of
    rows are of interest.
    """
    footer = bytes(memoryview(body)[-footer_length(body) : -8])
    for encoded, schema in known.items():
        if rows_after(footer, encoded) == file[2] and _ARROW_SCHEMA not in footer:
            return schema
    return None


def _learn(body: bytes, schema: pa.Schema | None, known: dict[bytes, pa.Schema]) -> None:
    """Remember the columns of a footer that was parsed."""
    footer = bytes(memoryview(body)[-footer_length(body) : -8])
    if schema is not None and len(known) < LAYOUTS_KNOWN and _ARROW_SCHEMA not in footer:
        known.setdefault(schema_bytes(footer), schema)


def _ends(store: Store, group: Sequence[_File]) -> Sequence[End | None]:
    try:
        return read_ends(store, [(path, size) for path, size, _, _ in group])
    except StoreError as error:
        if is_no_answer(store, error):
            raise
        # One of the files is a link or a folder. Checking them one by one finds it.
        return [None] * len(group)


def _layout(body: bytes, file: _File) -> pa.Schema | None:
    """Return the columns by a footer; None if the footer is not that of the file."""
    try:
        footer = footer_of(body)
        if footer.num_rows != file[2]:
            return None
        return footer.schema.to_arrow_schema().remove_metadata()
    except DAMAGE:
        return None


def _damage(store: Store, file: _File) -> CorruptDataError:
    path, size, rows, footer = file
    try:
        problem = check_file(store, path, size, rows, deep=True, footer=footer)
    except DAMAGE as error:
        if is_no_answer(store, error):
            raise
        problem = str(error)
    return CorruptDataError(problem or "it was damaged", key=path, rule="DAT-5")


def _by_values(
    files: pa.Table, lacking: Sequence[Field]
) -> Iterator[tuple[pa.Table, dict[int, pa.Scalar]]]:
    """Yield files with the log's values of the columns that they lack."""
    if not lacking:
        yield files, {}
        return
    field, rest = lacking[0], lacking[1:]
    values = files[f"partition.{field.id}"].combine_chunks()
    codes: NDArray[np.int64] = pc.dictionary_encode(values, "encode").indices.to_numpy()
    for code in np.unique(codes):
        same = np.flatnonzero(codes == code)
        for part, known in _by_values(files.take(pa.array(same)), rest):
            yield part, {field.id: values[int(same[0])], **known}
