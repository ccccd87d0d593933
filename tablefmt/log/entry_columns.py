"""Columnar parts of an entry to JSON and back. Pure.

Spec: ADD-1, ADD-6 .. ADD-8, DEL-1, DEL-3, LIN-1, ENT-9, KEY-2.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from tablefmt.log.object_names import (
    imported_path_problem,
    is_deletes_key,
    is_side_key,
    path_problem,
)
from tablefmt.log.strict_json import DIGEST, are_counts, bad, is_base64_digest, is_field_id
from tablefmt.model.log_entry import AddedFiles, Entry, Lineage, OverflowFile, RowDeletes, RowUpdate

_BY_FIELD = ("partition", "lower", "upper", "nulls", "nans")
_PLAIN = ("path", "size", "rows")
_MAYBE = ("footer", "updated", "keys", "written", "import", "digest", "partitioning")

_COLUMNS = frozenset({*_BY_FIELD, *_PLAIN, *_MAYBE, "file", "deleted"})
"""Names of columns of `add` and `delete`."""

_TEXTS = frozenset({str, type(None)})


def add_to_json(add: AddedFiles | OverflowFile, version: int) -> dict[str, Any]:
    """Return the field `add` of the entry of `version`.

    Raises:
        CorruptEntryError: ADD-1, ADD-7 .. ADD-9, KEY-2: columns that every reader would refuse.
            The writer has a bug; the check keeps the columns out of the table.
    """
    if isinstance(add, OverflowFile):
        return _side_to_json(add)
    _check_added({name: _listed(values) for name, values in add.columns.items()}, version)
    document: dict[str, Any] = {}
    for name, values in add.columns.items():
        group, field_id = _split_name(name)
        if field_id:
            document.setdefault(group, {})[field_id] = values
        else:
            document[name] = values
    return document


def _listed(values: Sequence[Any]) -> list[Any]:
    return values if type(values) is list else list(values)


def add_from_json(value: Mapping[str, Any], version: int) -> AddedFiles | OverflowFile:
    """Return the added files from the field `add`.

    Raises:
        CorruptEntryError: ADD-1, ADD-6 .. ADD-9, KEY-2. KeyError, TypeError: another shape.
    """
    if "side" in value:
        _check_alone(value, "ADD-6")
        return _side_from_json(value["side"], is_side_key, "ADD-6")
    columns: dict[str, Any] = {name: value[name] for name in _PLAIN}
    columns |= {name: value[name] for name in _MAYBE if name in value}
    for group in _BY_FIELD:
        for field_id, values in value.get(group, {}).items():
            columns[_column_name(group, field_id)] = values
    _check_added(columns, version)
    return AddedFiles(columns)


def no_columns(names: Sequence[str]) -> list[str]:
    """Return the invalid columns of an `add` overflow metadata file, whose first part is known."""
    return [name for name in names if not _is_column(*name.partition("."))]


def _is_column(group: str, dot: str, field_id: str) -> bool:
    if group in _BY_FIELD:
        return is_field_id(field_id)
    return not dot or group not in (*_PLAIN, *_MAYBE)


def deletes_to_json(deletes: RowDeletes | OverflowFile) -> dict[str, Any]:
    """Return the field `delete`."""
    if isinstance(deletes, OverflowFile):
        return _side_to_json(deletes)
    return {
        "deleted": list(deletes.deleted),
        "file": list(deletes.file),
        "rows": list(deletes.rows),
        "updated": list(deletes.updated),
    }


def deletes_from_json(value: Mapping[str, Any]) -> RowDeletes | OverflowFile:
    """Return the deleted rows from the field `delete`.

    Raises:
        CorruptEntryError: DEL-1, DEL-3. KeyError, TypeError: another shape.
    """
    if "side" in value:
        _check_alone(value, "DEL-3")
        return _side_from_json(value["side"], is_deletes_key, "DEL-3")
    deletes = RowDeletes(value["file"], value["rows"], value["deleted"], value["updated"])
    _check_lengths("delete", "DEL-1", deletes.file, deletes.rows, deletes.deleted, deletes.updated)
    if not (are_counts(deletes.file, 1) and are_counts(deletes.rows, 1)):
        raise bad("DEL-1", "`delete` holds a file id or a number of rows that is not positive")
    if any(b <= a for a, b in itertools.pairwise(deletes.file)):
        raise bad("DEL-1", "the files of `delete` are not ascending")
    if not _TEXTS.issuperset(map(type, itertools.chain(deletes.deleted, deletes.updated))):
        raise bad("DEL-1", "`delete` holds a set of positions that is not text")
    if any(a is None and b is None for a, b in zip(deletes.deleted, deletes.updated, strict=True)):
        raise bad("DEL-1", "`delete` names a file without positions")
    return deletes


def lineage_to_json(lineage: Lineage) -> dict[str, Any]:
    """Return the field `lineage`."""
    return {
        "dropped": list(lineage.dropped),
        "input": list(lineage.input),
        "output": list(lineage.output),
        "rows": list(lineage.rows),
        "start": list(lineage.start),
    }


def lineage_from_json(value: Mapping[str, Any]) -> Lineage:
    """Return the lineage from the field `lineage`.

    Raises:
        CorruptEntryError: LIN-1. KeyError, TypeError: another shape.
    """
    lineage = Lineage(
        value["output"], value["input"], value["start"], value["rows"], value["dropped"]
    )
    _check_lengths(
        "lineage",
        "LIN-1",
        lineage.output,
        lineage.input,
        lineage.start,
        lineage.rows,
        lineage.dropped,
    )
    lows = ((lineage.output, 0), (lineage.input, 1), (lineage.start, 0), (lineage.rows, 1))
    if not all(are_counts(values, low) for values, low in lows):
        raise bad("LIN-1", "`lineage` holds an invalid output, input or run")
    if any(b < a for a, b in itertools.pairwise(lineage.output)):
        raise bad("LIN-1", "the outputs of `lineage` are not ascending")
    if not _TEXTS.issuperset(map(type, lineage.dropped)):
        raise bad("LIN-1", "`lineage` holds a set of positions that is not text")
    return lineage


def check_lineage(entry: Entry) -> None:
    """Refuse a lineage of files that the entry does not add, or whose inputs are not older.

    If a concurrent commit removed an input as a whole, the entry does not remove it again. The rows
    of that input are deleted in the output.

    Raises:
        CorruptEntryError: LIN-1.
    """
    lineage = entry.lineage
    if lineage is None:
        return
    if lineage.output[-1] >= (0 if entry.add is None else len(entry.add)):
        raise bad("LIN-1", "`lineage` names an output that the entry does not add")
    if max(lineage.input) >= entry.totals.next_id - (0 if entry.add is None else len(entry.add)):
        raise bad("LIN-1", "`lineage` names an input that did not exist before the entry")


def update_from_json(value: Mapping[str, Any]) -> RowUpdate:
    """Return the row update from the field `update`.

    Raises:
        CorruptEntryError: ENT-9. KeyError, TypeError: another shape.
    """
    keys, chosen = value["keys"], value["set"]
    for ids in (keys, [] if chosen is None else chosen):
        if type(ids) is not list or not are_counts(ids, 1) or len(set(ids)) != len(ids):
            raise bad("ENT-9", "`update` does not hold lists of distinct field ids")
    if chosen is not None and sorted(chosen) != chosen:
        raise bad("ENT-9", "`set` of `update` is not ascending")
    return RowUpdate(None if chosen is None else tuple(chosen), tuple(keys))


def _check_lengths(name: str, rule: str, *columns: Any) -> None:
    if any(type(values) is not list or len(values) != len(columns[0]) for values in columns):
        raise bad(rule, f"`{name}` does not hold lists of equal length")
    if not columns[0]:
        raise bad(rule, f"`{name}` is empty")


def _check_alone(value: Mapping[str, Any], rule: str) -> None:
    """Refuse columns beside an overflow metadata file. Two readers could take different ones."""
    beside = sorted(name for name in value if name in _COLUMNS)
    if beside:
        raise bad(rule, f"it has both an overflow metadata file and the column {beside[0]!r}")


def _side_to_json(side: OverflowFile) -> dict[str, Any]:
    return {
        "side": {"files": side.files, "path": side.path, "sha256": side.sha256, "size": side.size}
    }


def _side_from_json(
    side: Mapping[str, Any], is_key: Callable[[str], bool], rule: str
) -> OverflowFile:
    if not is_key(side["path"]):
        raise bad(
            rule,
            f"the name {side['path']!r:.100} of the overflow metadata file does not match "
            "the grammar",
        )
    if not DIGEST.fullmatch(side["sha256"]):
        raise bad(rule, "the overflow metadata file has no SHA-256")
    if not are_counts([side["files"], side["size"]], 1):
        raise bad(rule, "the overflow metadata file has an invalid number of files or bytes")
    return OverflowFile(side["path"], side["files"], side["size"], side["sha256"])


@lru_cache(maxsize=4096)
def _split_name(name: str) -> tuple[str, str]:
    """Return a column's group and field id; the id is empty for columns that are not per field."""
    group, _, field_id = name.partition(".")
    return group, field_id


@lru_cache(maxsize=4096)
def _column_name(group: str, field_id: str) -> str:
    if not is_field_id(field_id):
        raise bad("ADD-1", f"`add` has a column {group} of {field_id!r:.40}; expected a field id")
    return f"{group}.{field_id}"


def _check_added(columns: Mapping[str, Any], version: int) -> None:
    """Check the columns of added files. Raises CorruptEntryError with the rule."""
    length = len(columns["path"])
    if length == 0:
        raise bad("ADD-1", "`add` holds no file")
    uneven = [n for n, v in columns.items() if type(v) is not list or len(v) != length]
    if uneven:
        raise bad("ADD-1", f"`add` column {uneven[0]} is not a list of {length} elements")
    kinds = set(map(type, itertools.chain.from_iterable(columns.values())))
    if dict in kinds or list in kinds:
        name = next(n for n, v in columns.items() if not {dict, list}.isdisjoint(map(type, v)))
        raise bad("ADD-1", f"`add` column {name} holds a list or an object")
    imports = columns.get("import", ())
    numbers = [value for value in imports if value is not None]
    if not are_counts(numbers, 1):
        raise bad("IMP-1", "`add` column import holds something that is not a number from 1 on")
    for path, number in itertools.zip_longest(columns["path"], imports):
        problem = path_problem(path) if number is None else imported_path_problem(path)
        if problem:
            rule = "KEY-2" if number is None else "IMP-1"
            raise bad(rule, f"the path {str(path)[:100]!r} is refused: {problem}")
    if len(set(columns["path"])) != length:
        raise bad("ADD-1", "a path is added twice")
    for name, low in (("size", 1), ("rows", 0)):
        if not are_counts(columns[name], low):
            raise bad("ADD-1", f"`add` column {name} holds something that is not a count")
    for crc in columns.get("footer", ()):
        if crc is not None and not (type(crc) is int and 0 <= crc < 1 << 32):
            raise bad("ADD-7", "`add` column footer holds something that is not a CRC-32")
    if not {bool}.issuperset(map(type, columns.get("updated", ()))):
        raise bad("ADD-1", "`add` column updated holds something that is not a boolean")
    numbers = [value for value in columns.get("partitioning", ()) if value is not None]
    if not are_counts(numbers, 0):
        raise bad("EVO-2", "`add` column partitioning holds something that is not a number")
    digests = columns.get("digest", ())
    if any(d is not None and not (type(d) is str and is_base64_digest(d)) for d in digests):
        raise bad("IMP-6", "`add` column digest holds something that is not a SHA-256 in base64")
    if not _TEXTS.issuperset(map(type, columns.get("keys", ()))):
        raise bad("ADD-8", "`add` column keys holds something that is not text")
    written = [value for value in columns.get("written", ()) if value is not None]
    if not are_counts(written, 0) or max(written, default=0) > version:
        raise bad("ADD-9", f"`add` column written holds a value that is not a version <= {version}")
