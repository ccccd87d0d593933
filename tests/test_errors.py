"""Errors of the tree: a kind each, and the same error on the other side of a process."""

from __future__ import annotations

import copy
import importlib
import multiprocessing
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

import tablefmt
from tablefmt import errors
from tablefmt.errors import TablefmtError
from tablefmt.store.object_store import InvalidKeyError, KeyNotFoundError

CONFLICT = {
    "winner_version": 7,
    "winner_operation": "DELETE",
    "rule": "CFL-9",
    "cell": "write-serializable, DELETE after INSERT",
    "evidence": {"files": ["a.parquet"], "files_count": 12},
    "advice": "Read again.",
}
CORRUPT = {"key": "_log/1.json", "rule": "ENT-1", "advice": "Look at it."}

MADE: list[TablefmtError] = [
    TablefmtError("something"),
    errors.TableNotFoundError("s3://b/t", "a detail", found="a Delta table"),
    errors.TableExistsError("s3://b/t", "a detail"),
    errors.ForeignTableError("s3://b/t", "a Delta table", "_delta_log/0.json"),
    errors.VersionNotFoundError("version 9", 2, 7),
    errors.ChangesExpiredError(1, 4, "Start at 4."),
    errors.InvalidRangeError("3 to 2"),
    errors.InvalidArgumentError("mode 'x'"),
    errors.UnknownArgumentError("no 'x'"),
    errors.ConcurrentModificationException("a reason", **CONFLICT),  # type: ignore[arg-type]
    errors.ConcurrentAppendException("a reason", **CONFLICT),  # type: ignore[arg-type]
    errors.ConcurrentDeleteReadException("a reason", **CONFLICT),  # type: ignore[arg-type]
    errors.ConcurrentDeleteDeleteException("a reason", **CONFLICT),  # type: ignore[arg-type]
    errors.ConcurrentWriteException("a reason", **CONFLICT),  # type: ignore[arg-type]
    errors.MetadataChangedException("a reason", **CONFLICT),  # type: ignore[arg-type]
    errors.ProtocolChangedException("a reason", **CONFLICT),  # type: ignore[arg-type]
    errors.ConcurrentTransactionException("a reason", **CONFLICT),  # type: ignore[arg-type]
    errors.ExportBlockedError("/t", "delta", "_delta_log/7.json", "it is not ours"),
    errors.CommitUnknownError("ab" * 16, 5, "no answer"),
    errors.CommitRejectedError("the disk is full"),
    errors.CorruptTableError("is torn", **CORRUPT),
    errors.LostCheckpointError("is torn", **CORRUPT),
    errors.CorruptEntryError("is torn", **CORRUPT),
    errors.LogGapError(3, 5),
    errors.CorruptDataError("is torn", **CORRUPT),
    errors.TableReplacedError("is another", **CORRUPT),
    errors.UnsupportedFeatureError("needs more", ["deletionVectors", "x"]),
    errors.UnsafeStoreError("does not honour put-if-absent"),
    errors.StoreError("is away", retryable=True),
    InvalidKeyError("the key is empty", retryable=True),
    KeyNotFoundError("_log/1.json"),
    errors.SchemaMismatchError("does not fit", ["a", "b"]),
    errors.ConstraintViolationError("breaks a check", constraint="positive", row={"id": 1}),
    errors.MergeCardinalityError("two rows", [{"id": 1}, {"id": None}]),
    errors.TransactionStateError("is over"),
    errors.InvalidPredicateError("no column x"),
    errors.IdempotenceError("was used before"),
]
"""One error of every class, with every argument of its constructor."""

KINDS = {
    "tablefmt": "TablefmtError",
    "table_not_found": "TableNotFoundError",
    "table_exists": "TableExistsError",
    "foreign_table": "ForeignTableError",
    "export_blocked": "ExportBlockedError",
    "version_not_found": "VersionNotFoundError",
    "changes_expired": "ChangesExpiredError",
    "invalid_range": "InvalidRangeError",
    "invalid_argument": "InvalidArgumentError",
    "unknown_argument": "UnknownArgumentError",
    "concurrent_modification": "ConcurrentModificationException",
    "concurrent_append": "ConcurrentAppendException",
    "concurrent_delete_read": "ConcurrentDeleteReadException",
    "concurrent_delete_delete": "ConcurrentDeleteDeleteException",
    "concurrent_write": "ConcurrentWriteException",
    "metadata_changed": "MetadataChangedException",
    "protocol_changed": "ProtocolChangedException",
    "concurrent_transaction": "ConcurrentTransactionException",
    "commit_unknown": "CommitUnknownError",
    "commit_rejected": "CommitRejectedError",
    "corrupt_table": "CorruptTableError",
    "lost_checkpoint": "LostCheckpointError",
    "corrupt_entry": "CorruptEntryError",
    "log_gap": "LogGapError",
    "corrupt_data": "CorruptDataError",
    "table_replaced": "TableReplacedError",
    "unsupported_feature": "UnsupportedFeatureError",
    "unsafe_store": "UnsafeStoreError",
    "store": "StoreError",
    "invalid_key": "InvalidKeyError",
    "key_not_found": "KeyNotFoundError",
    "schema_mismatch": "SchemaMismatchError",
    "constraint_violation": "ConstraintViolationError",
    "merge_cardinality": "MergeCardinalityError",
    "transaction_state": "TransactionStateError",
    "invalid_predicate": "InvalidPredicateError",
    "idempotence": "IdempotenceError",
}
"""Programs decide by these: a kind that was released keeps its class. New ones are added here."""


def below(cls: type[TablefmtError]) -> Iterator[type[TablefmtError]]:
    yield cls
    for inner in cls.__subclasses__():
        yield from below(inner)


def classes() -> set[type[TablefmtError]]:
    """All classes of the tree, wherever in the package."""
    for module in pkgutil.walk_packages(tablefmt.__path__, "tablefmt."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return {cls for cls in below(TablefmtError) if cls.__module__.startswith("tablefmt")}


def contents(error: BaseException) -> tuple[object, ...]:
    return type(error), str(error), error.args, vars(error)


def by_name(error: TablefmtError) -> str:
    return type(error).__name__


def test_the_kinds_are_those_that_were_released() -> None:
    """Any new class has a kind of its own."""
    assert {cls.kind: cls.__name__ for cls in classes()} == KINDS
    assert len({cls.kind for cls in classes()}) == len(classes())


def test_an_error_of_every_class_is_made_here_with_every_field() -> None:
    assert {type(error) for error in MADE} == classes()
    bare = [f"{by_name(e)}.{n}" for e in MADE for n, value in vars(e).items() if not value]
    assert bare == ["LogGapError.key"]  # an entry that is missing is no object


WAYS: dict[str, Callable[[TablefmtError], TablefmtError]] = {
    **{
        f"pickle {n}": lambda error, n=n: pickle.loads(pickle.dumps(error, n))
        for n in range(pickle.HIGHEST_PROTOCOL + 1)
    },
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", MADE, ids=by_name)
def test_every_error_survives(error: TablefmtError, way: str) -> None:
    """Class, text, fields and notes; twice over as well."""
    noted = copy.copy(error)
    # add_note is not there before Python 3.11.
    vars(noted)["__notes__"] = ["while copying"]
    again = WAYS[way](WAYS[way](noted))
    assert contents(again) == contents(noted)
    assert "__notes__" not in vars(error)
    assert again is not noted


def test_a_deep_copy_shares_nothing() -> None:
    error = errors.MergeCardinalityError("two rows", [{"id": 1}])
    again = copy.deepcopy(error)
    again.keys[0]["id"] = 2
    assert error.keys == [{"id": 1}]


@pytest.mark.parametrize("way", WAYS)
def test_the_cause_stays_behind_as_with_every_exception(way: str) -> None:
    """Python does the same, so that a cause that cannot be pickled does no harm."""
    left = []
    for error in (errors.StoreError("is away"), ValueError("plain")):
        try:
            raise error from OSError("below")
        except Exception as raised:
            again = WAYS[way](raised)  # type: ignore[arg-type]
        left.append((again.__cause__, again.__traceback__))
    assert left == [(None, None), (None, None)]


def fail(number: int) -> None:
    raise MADE[number] from OSError("below")


def test_a_process_pool_raises_what_its_worker_raised() -> None:
    """Every class; the worker's traceback is its cause, as the pool has it."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        for number, error in enumerate(MADE):
            with pytest.raises(TablefmtError) as caught:
                pool.submit(fail, number).result(120)
            assert contents(caught.value) == contents(error)
            assert "OSError: below" in str(caught.value.__cause__)


def test_arguments_and_ranges_are_told_apart_and_caught_together() -> None:
    """spec/decisions/0044: who catches InvalidRangeError catches what it always did."""
    assert issubclass(errors.InvalidArgumentError, errors.InvalidRangeError)
    assert issubclass(errors.InvalidArgumentError, ValueError)
    with pytest.raises(errors.InvalidRangeError) as argument:
        tablefmt.write({"id": [1]}, "memory://errors", mode="upsert")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidRangeError) as range_:
        tablefmt.create("memory://errors", "id BIGINT").changes()
    assert [type(e.value) for e in (argument, range_)] == [
        errors.InvalidArgumentError,
        errors.InvalidRangeError,
    ]
    assert [e.value.kind for e in (argument, range_)] == ["invalid_argument", "invalid_range"]
