"""Files that no entry names: which of them go when work ends one way or another."""

import ast
from pathlib import Path

import pytest

import tablefmt
from tablefmt.errors import CommitRejectedError, StoreError
from tablefmt.log.object_names import data_folder, deletes_key, overflow_key
from tablefmt.model.log_entry import AddedFiles
from tablefmt.session.transaction_snapshot import TransactionFiles
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.object_store import Store
from tablefmt.testing.faults import FaultyStore, Killed

MINE, OTHER = "1" * 32, "2" * 32
NAMES = ("0-a.parquet", "1-a.parquet", "10-a.parquet", "u/part-0.parquet")


def store_with_files() -> tuple[MemoryStore, set[str]]:
    """Return a store with data and overflow files of two transactions, and their keys."""
    store = MemoryStore("files")
    keys = {overflow_key(MINE), deletes_key(MINE), overflow_key(OTHER), deletes_key(OTHER)}
    keys |= {data_folder(transaction) + name for transaction in (MINE, OTHER) for name in NAMES}
    for key in keys:
        store.put(key, b"x")
    return store, keys


def keys_of(store: Store) -> set[str]:
    """All that is there."""
    return {one.key for one in store.list_after("")}


def named(*names: str) -> set[str]:
    """Data files of this transaction."""
    return {data_folder(MINE) + name for name in names}


def test_an_aborted_transaction_removes_its_files_and_nothing_else():
    """CMT-1: a transaction that is not in the table leaves nothing, another's files stay."""
    store, keys = store_with_files()
    TransactionFiles(store, MINE).discard()
    assert keys_of(store) == {key for key in keys if MINE not in key}


@pytest.mark.parametrize(
    ("prefixes", "gone"),
    [
        (("",), NAMES),
        (("1-",), ("1-a.parquet",)),
        (("0-", "u/"), ("0-a.parquet", "u/part-0.parquet")),
        ((), ()),
    ],
)
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_failure_removes_what_was_written_under_its_names(
    prefixes: tuple[str, ...], gone: tuple[str, ...], error: type[BaseException]
):
    """Data files are removed for every exception of the block, overflow files are not."""
    store, keys = store_with_files()
    with (
        pytest.raises(error, match="why"),
        TransactionFiles(store, MINE).removed_on_failure(prefixes),
    ):
        raise error("why")
    assert keys_of(store) == keys - named(*gone)


def test_work_that_is_done_or_a_process_that_is_killed_removes_nothing():
    """Written files stay for the commit, and after a kill."""
    store, keys = store_with_files()
    files = TransactionFiles(store, MINE)
    with files.removed_on_failure():
        pass
    with pytest.raises(Killed), files.removed_on_failure():
        raise Killed("now")
    assert keys_of(store) == keys


def test_of_attempts_only_the_files_of_those_that_won_stay():
    """Files under other prefixes are none of the job's."""
    store, keys = store_with_files()
    files = TransactionFiles(store, MINE)
    files.keep_only(AddedFiles({"path": sorted(named("10-a.parquet"))}), "1")
    assert keys_of(store) == keys - named("1-a.parquet")
    files.keep_only(None)
    assert keys_of(store) == keys - named(*NAMES)


def test_a_store_that_refuses_a_file_rejects_the_commit_and_may_refuse_to_delete():
    """The reason is the first error of the store."""
    store, keys = store_with_files()
    broken = FaultyStore(store, lambda index, verb, key: "refused" if verb == "delete" else None)
    with (
        pytest.raises(CommitRejectedError, match=r"rejected: the disk is full[.] Nothing"),
        TransactionFiles(broken, MINE).removed_on_failure(),
    ):
        raise StoreError("the disk is full.")
    assert keys_of(store) == keys
    assert broken.fired["refused"] == 1


def calls_delete(path: Path) -> bool:
    """Return true if the module calls a method `delete`; its texts and docs do not count."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "delete"
        for node in ast.walk(ast.parse(path.read_text()))
    )


def test_nothing_else_deletes_what_is_in_a_store():
    """One remover: the stores themselves, and what Hadoop deletes for it, aside. `compat` calls the
    DELETE of tables, and a deep clone deletes a damaged copy of its own. A check of a store deletes
    its own objects, and a repair deletes derived objects that are damaged.
    """
    package = Path(tablefmt.__file__).parent
    modules = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    deleting = {name for name, path in modules.items() if calls_delete(path)}
    of_stores = {name for name in deleting if name.startswith(("compat/", "store/", "testing/"))}
    assert deleting - of_stores == {
        "imports/clone_copies.py",
        "inspection/store_check.py",
        "maintenance/repair.py",
        "session/transaction_snapshot.py",
        "spark/backends/native/native_writer.py",
    }
