"""Small files, decoded whole by polars in programs that have loaded it.

ADD-7 covers every byte of a file of up to 64 KiB. So after that check no page needs a check of its
own, and polars may decode the file as it is, many files at once. Arrow's scanner takes several
times as long for each file as for its rows. Spec: ADD-7, DAT-4, DAT-5, DAT-12, DEL-1.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from numpy.typing import NDArray

from tablefmt.data.file_checksum import END_BYTES
from tablefmt.data.polars_decoder import PolarsDecoder, is_loaded, unsuited_decoder
from tablefmt.data.scan_tasks import PIECE_BYTES, ScanTask
from tablefmt.expressions.predicate import Predicate
from tablefmt.log.parquet_footer import Outline
from tablefmt.model.positions import live_mask
from tablefmt.model.schema import Schema

LEAST = 4
"""Fewer files are not worth a start of polars' threads."""


MOST = 128
"""Files that polars decodes at once. It keeps some memory for each column of each file."""


STRETCHES = 4
"""A scan task is cut into at most this many stretches of small and of larger files."""


def by_size(task: ScanTask) -> Iterator[ScanTask]:
    """Yield a task in stretches of small and of larger files, if polars may decode small ones."""
    stretches: list[tuple[bool, int]] = []
    if is_loaded() and task.data.on_disk:
        small = (size <= END_BYTES for size in task.files["size"].to_pylist())
        stretches = [(is_small, len(list(same))) for is_small, same in itertools.groupby(small)]
    pays = any(is_small and count >= LEAST for is_small, count in stretches)
    if not pays or not 1 < len(stretches) <= STRETCHES:
        yield task
        return
    start = 0
    for _, count in stretches:
        yield task.slice(start, start + count)
        start += count


class Run(NamedTuple):
    """Consecutive files of a scan task."""

    start: int
    stop: int
    rows: list[pa.RecordBatch] | None
    """Their matching live rows; None: Arrow must decode them."""


def small_files(
    task: ScanTask,
    schema: Schema,
    names: Sequence[str],
    predicate: Predicate | None,
    views: bool = False,
) -> Iterator[Run] | None:
    """Return the rows of a task's files, decoded by polars; None: not all files are small.

    Args:
        task: the files.
        schema: the snapshot's schema.
        names: physical names of the columns to return.
        predicate: keep rows for which it is true; None: all.
        views: as `PolarsDecoder.views`.
    """
    if not is_loaded() or not names or task.files.num_rows < LEAST:
        return None
    # Of other stores, polars' own scans ask for rows while its threads wait for them.
    if not task.data.on_disk or "footer" not in task.files.column_names:
        return None
    files = _files(task)
    if files is None or task.files["footer"].null_count:
        return None
    decoder = unsuited_decoder(task.dataset, schema, names, predicate, views)
    if decoder is None:
        return None
    alike = [list(same) for _, same in itertools.groupby(files, key=_form)]
    if len(alike) * LEAST > len(files):
        return None
    try:
        suited = all(decoder.stored(same[0].fragment) is not None for same in alike)
    except (OSError, ValueError, OverflowError, pa.ArrowException):
        return None
    if not suited:
        return None
    return _runs(decoder, alike, task.row_bytes([*decoder.looked.union(names)]))


class _File(NamedTuple):
    at: int
    fragment: ds.ParquetFileFragment
    body: bytes
    outline: Outline
    vector: bytes | None


def _files(task: ScanTask) -> list[_File] | None:
    """Return the files of a task; None: some file is larger, or is not as the log says."""
    paths, rows = (task.files[name].to_pylist() for name in ("path", "rows"))
    fragments, vectors = task.dataset.get_fragments(), task.vectors
    found = []
    for at, (path, count, fragment, vector) in enumerate(
        zip(paths, rows, fragments, vectors, strict=True)
    ):
        body, outline = task.data.whole(path), task.data.outline(path)
        if body is None or outline is None or outline.rows != count:
            return None
        found.append(_File(at, fragment, body, outline, vector))
    return found


def _form(file: _File) -> tuple[bytes, bytes, str]:
    """Return what files that are decoded together have in common."""
    return file.outline.columns, file.outline.rest, str(file.fragment.partition_expression)


def _runs(
    decoder: PolarsDecoder, alike: Sequence[Sequence[_File]], widths: Sequence[int]
) -> Iterator[Run]:
    for same in alike:
        for some in _pieces(same, widths):
            bodies = [file.body for file in some]
            found = decoder.of_whole(some[0].fragment, bodies, _live(some))
            yield Run(some[0].at, some[-1].at + 1, found)


def _pieces(files: Sequence[_File], widths: Sequence[int]) -> Iterator[list[_File]]:
    """Yield runs of at most MOST files with about PIECE_BYTES of Arrow data."""
    run: list[_File] = []
    held = 0
    for file in files:
        length = file.outline.rows * widths[file.at]
        if run and (held + length > PIECE_BYTES or len(run) >= MOST):
            yield run
            run, held = [], 0
        run.append(file)
        held += length
    yield run


def _live(files: Sequence[_File]) -> NDArray[np.bool_] | None:
    """Return for each row of files whether it is live; None: all are."""
    if all(file.vector is None for file in files):
        return None
    return np.concatenate([live_mask(file.vector, file.outline.rows) for file in files])
