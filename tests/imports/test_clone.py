"""Clones: rows and definition of a version, at any history of the source, and what they survive."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import logdump
import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import (
    CorruptDataError,
    InvalidArgumentError,
    InvalidRangeError,
    ProtocolChangedException,
    TableExistsError,
    TablefmtError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.imports import clone as clone_module
from tablefmt.imports import clone_copies, clone_replacement
from tablefmt.imports.clone import clone, clone_roots
from tablefmt.operations import create as create_module
from tablefmt.store.local_store import LocalStore
from tablefmt.store.object_store import Request
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.testing.faults import Fault, FaultyStore, Killed
from tests.export.shapes import evolved
from tests.imports.sources import alike, contents, hive
from tests.operations.evolving_table import evolving
from tests.tables import assert_sound, handle, memory, new_table, rows

BOTH = pytest.mark.parametrize("shallow", [True, False])
NOW: dict[str, Any] = {"retention": 0, "dry_run": False, "breaks_running_transactions": True}


def reopened(of: tablefmt.Table, *roots: Any) -> tablefmt.Table:
    """Return a new handle that may read some folders."""
    options = {"import_roots": [str(root) for root in roots]} if roots else None
    return tablefmt.open(of.uri, storage_options=options)


@BOTH
def test_a_clone_has_the_rows_and_the_definition_of_its_source(
    tmp_path: Path, shallow: bool
) -> None:
    """CLN-1: renames, drops, widening, defaults, deleted rows, partitions, all by both readers."""
    source = evolved(str(tmp_path / "source"))
    source.alter.add_constraint("small", "id < 1000")
    source.alter.set_properties({"appendOnly": "false", "user.team": "a"})
    source.alter.set_tag("q", version=2)
    before = contents(tmp_path / "source")
    copy = source.clone(tmp_path / "copy", shallow=shallow, properties={"user.team": "b"})
    assert copy.version == 0
    again = reopened(copy, source.uri) if shallow else reopened(copy)
    ours, theirs = (t.context.view.head.metadata for t in (again, source))
    assert (ours.schema, ours.partition_by, ours.constraints) == (
        theirs.schema,
        theirs.partition_by,
        theirs.constraints,
    )
    assert again.properties == {"appendOnly": "false", "user.team": "b"}
    assert again.tags().num_rows == 0
    assert again.schema == source.schema
    assert alike(again.to_arrow()) == alike(source.to_arrow())
    assert again.id != source.id
    (line,) = again.history().to_pylist()
    assert line["operation"] == "CLONE"
    assert dict(line["operationParameters"]) == {
        "source": source.uri,
        "sourceVersion": str(source.version),
        "isShallow": str(shallow).lower(),
    }
    assert again.verify(deep=True).ok
    assert contents(tmp_path / "source") == before
    dumped = logdump.read(copy.uri)
    assert dumped["findings"] == []
    assert again.changes(starting_version=0).to_arrow().num_rows == source.count()
    old = source.clone(tmp_path / "old", shallow=shallow, version="q")
    assert alike(old.to_arrow()) == alike(source.to_arrow(version=2))


@pytest.mark.slow
@BOTH
def test_a_clone_and_its_source_change_apart(tmp_path: Path, shallow: bool) -> None:
    """CLN-1, CLN-2: DML, compaction, restore, vacuum, checkpoint and drop of the clone."""
    source = evolved(str(tmp_path / "source"))
    expected, before = alike(source.to_arrow()), contents(tmp_path / "source")
    copy = source.clone(tmp_path / "copy", shallow=shallow)
    copy.append(source.scan(limit=2, columns=["id", "part", "n"]))
    copy.delete("id = 20")
    copy.update({"n": "-1"}, "part = 1")
    ours = reopened(copy, source.uri)
    ids = [r["id"] for r in source.to_arrow().to_pylist() if r["id"] != 20]
    extra = [r["id"] for r in source.scan(limit=2).to_arrow().to_pylist()]
    assert sorted(ours.to_arrow()["id"].to_pylist()) == sorted(ids + extra)
    ours.checkpoint()
    ours.compact("major")
    assert ours.context.view.snapshot().files.num_rows > 0
    assert sorted(reopened(copy).to_arrow()["id"].to_pylist()) == sorted(ids + extra)
    ours.restore(version=0)
    assert alike(reopened(copy, source.uri).to_arrow()) == expected
    ours.vacuum(**NOW)
    assert alike(reopened(copy, source.uri).to_arrow()) == expected
    assert reopened(copy, source.uri).verify(deep=True).ok
    assert contents(tmp_path / "source") == before
    tablefmt.drop(copy.uri, delete_data=True)
    assert contents(tmp_path / "source") == before
    assert not list((tmp_path / "copy" / "data").rglob("*.parquet"))
    assert alike(source.to_arrow()) == expected
    anew = source.clone(tmp_path / "copy", shallow=shallow)
    assert anew.version > 0
    assert alike(reopened(anew, source.uri).to_arrow()) == expected


def test_a_clone_allows_no_folder_that_the_user_did_not_allow(tmp_path: Path) -> None:
    """IMP-3, CLN-2: the log of a source may name the folder of somebody else."""
    hive(tmp_path / "private")
    tablefmt.import_table(tmp_path / "private", into=tmp_path / "source")
    source = tablefmt.open(tmp_path / "source")
    assert clone_roots(source.context, source.version) == [source.uri]
    shallow = source.clone(tmp_path / "shallow")
    for table in (source, shallow, reopened(shallow, source.uri)):
        with pytest.raises(UnsupportedFeatureError, match="import_roots"):
            table.to_arrow()
    with pytest.raises(UnsupportedFeatureError, match="import_roots"):
        source.clone(tmp_path / "deep", shallow=False)
    assert not tablefmt.exists(tmp_path / "deep")


@BOTH
def test_a_clone_of_a_clone_of_imported_files(tmp_path: Path, shallow: bool) -> None:
    """CLN-2, CLN-3: files of three tables, some imported, with rows deleted at each step."""
    hive(tmp_path / "lake")
    first = tablefmt.import_table(tmp_path / "lake", into=tmp_path / "first")
    first.append(first.scan(where="id < 3"))
    first.delete("id = 5")
    second = first.clone(tmp_path / "second")
    second.append(first.scan(where="id = 9"))
    second.delete("id = 6")
    expected = alike(second.to_arrow())
    third = second.clone(tmp_path / "third", shallow=shallow)
    assert alike(third.to_arrow()) == expected
    roots = [tmp_path / name for name in ("lake", "first", "second")]
    if shallow:
        assert alike(reopened(third, *roots).to_arrow()) == expected
        for root in roots:
            with pytest.raises(UnsupportedFeatureError, match="import_roots"):
                reopened(third, *(r for r in roots if r != root)).to_arrow()
        with pytest.raises(InvalidArgumentError, match=r"hold=True sets a tag on the table"):
            second.clone(tmp_path / "x", hold=True)
    else:
        for root in roots:
            shutil.rmtree(root)
        assert alike(reopened(third).to_arrow()) == expected
        assert reopened(third).verify(deep=True).ok
        (tmp_path / "third" / "mine.txt").write_text("")
        third.overwrite(third.scan(where="id = 9"))
        third.vacuum(**NOW)
        assert third.count() == 2
        assert len(list((tmp_path / "third").rglob("*.parquet"))) == 1
        assert (tmp_path / "third" / "mine.txt").exists()


def test_a_vacuum_of_the_source_is_named(tmp_path: Path) -> None:
    """CLN-4: every kind of read that misses a file says so."""
    source = evolved(str(tmp_path / "source"))
    copy = source.clone(tmp_path / "copy", version=2)
    source.overwrite(source.scan(limit=1))
    source.vacuum(**NOW)
    clone_ = reopened(copy, source.uri)
    for read in (
        lambda: clone_.to_arrow(),
        lambda: clone_.scan(where="id = 1").to_arrow(),
        lambda: clone_.delete("n = 1"),
        lambda: clone_.changes(starting_version=0).to_arrow(),
        lambda: clone_.compact("major"),
    ):
        with pytest.raises(CorruptDataError, match="the source table was vacuumed") as caught:
            read()
        assert caught.value.key.startswith("data/")
        assert str(source.uri) in str(caught.value)
    report = str(clone_.verify())
    assert report.count("the source table was vacuumed") == clone_.scan().files().num_rows
    with pytest.raises(VersionNotFoundError):
        source.clone(tmp_path / "other", version=2)
    assert not (tmp_path / "other").exists()


def test_a_hold_keeps_the_version_until_the_tag_is_dropped(tmp_path: Path) -> None:
    """CLN-4, TAG-2."""
    source = evolved(str(tmp_path / "source"))
    copy = source.clone(tmp_path / "copy", version=2, hold=True)
    expected = alike(source.to_arrow(version=2))
    (tag,) = source.tags().to_pylist()
    assert (tag["version"], tag["retain_until"]) == (2, None)
    parameters = dict(copy.history().to_pylist()[0]["operationParameters"])
    assert parameters["hold"] == tag["name"]
    assert source.history(1).to_pylist()[0]["userMetadata"] == f'{{"clone":"{copy.uri}"}}'
    source.overwrite(source.scan(limit=1))
    source.vacuum(**NOW)
    assert alike(reopened(copy, source.uri).to_arrow()) == expected
    source.alter.drop_tag(tag["name"])
    source.vacuum(**NOW)
    with pytest.raises(CorruptDataError, match="the source table was vacuumed"):
        reopened(copy, source.uri).to_arrow()
    with pytest.raises(TableExistsError, match="pass replace=True"):
        source.clone(copy.uri, hold=True)
    assert source.tags().num_rows == 0


@pytest.mark.parametrize("at", ["check", "put"])
def test_a_vacuum_during_a_shallow_clone_leaves_no_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """CLN-4: before the entry, and between the entry and the last look."""
    source = evolved(str(tmp_path / "source"))
    other = tablefmt.open(source.uri)

    def vacuumed() -> None:
        other.overwrite(other.scan(limit=1))
        other.vacuum(**NOW)

    place = {"check": "staged_clone", "put": "create_with_files"}[at]
    inner = getattr(clone_module, place)

    def late(*given: Any) -> Any:
        made = None if at == "check" else inner(*given)
        vacuumed()
        return made or inner(*given)

    monkeypatch.setattr(clone_module, place, late)
    with pytest.raises(VersionNotFoundError, match=str(source.version)):
        source.clone(tmp_path / "copy")
    assert not tablefmt.exists(tmp_path / "copy")
    # Files that are still live, or still there, do not stop a clone.
    monkeypatch.undo()
    copy = tablefmt.open(source.uri).clone(tmp_path / "copy")
    assert copy.count() == 1


def test_a_vacuum_during_a_deep_clone_leaves_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CLN-3, CLN-4."""
    source = evolved(str(tmp_path / "source"))
    other, inner = tablefmt.open(source.uri), getattr(clone_copies, "copy_files")  # noqa: B009

    def late(*given: Any) -> Any:
        other.overwrite(other.scan(limit=1))
        other.vacuum(**NOW)
        return inner(*given)

    monkeypatch.setattr(clone_copies, "copy_files", late)
    with pytest.raises(VersionNotFoundError, match=str(source.version)):
        source.clone(tmp_path / "copy", shallow=False)
    assert not list((tmp_path / "copy").rglob("*.parquet"))
    assert not tablefmt.exists(tmp_path / "copy")


@pytest.mark.parametrize("damage", ["gone", "longer", "shorter", "flipped"])
def test_a_deep_clone_copies_no_damage(tmp_path: Path, damage: str) -> None:
    """CLN-3, DAT-5, ADD-7, IMP-6."""
    hive(tmp_path / "lake")
    source = tablefmt.import_table(tmp_path / "lake", into=tmp_path / "source")
    source.append(source.scan(where="id = 1"))
    file = next(iter(sorted((tmp_path / "source").rglob("data/**/*.parquet"))))
    body = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        flipped = bytes([body[100] ^ 1])
        changed = {
            "longer": body + b"x",
            "shorter": body[:-1],
            "flipped": body[:100] + flipped + body[101:],
        }
        file.write_bytes(changed[damage])
    with pytest.raises(CorruptDataError, match=file.name):
        source.clone(tmp_path / "copy", shallow=False)
    assert not list((tmp_path / "copy").rglob("*.parquet"))
    assert not tablefmt.exists(tmp_path / "copy")
    file.write_bytes(body)
    assert source.clone(tmp_path / "copy", shallow=False).count() == 61


@BOTH
@pytest.mark.parametrize("fault", ["kill_before", "kill_after", "lost_answer", "refused"])
def test_a_clone_stopped_at_any_request_is_whole_or_not_there(
    tmp_path: Path, fault: Fault, shallow: bool
) -> None:
    """CLN-1: a clone that stopped is no table, and a second one takes the place."""
    source = new_table(LocalStore(tmp_path / "source"), partitioned=True)
    source.append(rows(1, 2, 3, p=["a", "b", "c"]))
    source.delete("id = 2")
    expected = alike(source.to_arrow())
    for at in range(100):
        place = tmp_path / f"t{at}"
        faulty = FaultyStore(LocalStore(place), lambda n, v, k, at=at: fault if n == at else None)
        try:
            clone(source.context, faulty, shallow=shallow)
        except (Killed, TablefmtError):
            pass
        if tablefmt.exists(place):
            made = tablefmt.open(place, storage_options={"import_roots": source.uri})
        else:
            made = source.clone(place, shallow=shallow)
        assert made.version == 0
        assert alike(made.to_arrow()) == expected, at
        made.vacuum(**NOW)
        files = len(list(place.rglob("data/**/*.parquet")))
        assert files == (0 if shallow else made.context.view.snapshot().files.num_rows), at
        if not faulty.fired:
            break
    else:
        raise AssertionError("the clone never ran without a fault")


@pytest.mark.parametrize("fault", ["kill_after", "lost_answer", "refused"])
def test_a_clone_that_may_be_there_keeps_its_hold(tmp_path: Path, fault: Fault) -> None:
    """CLN-4: the tag goes only if the clone is surely not there."""
    source = new_table(LocalStore(tmp_path / "source"))
    source.append(rows(1, 2))
    for at in range(100):
        place = tmp_path / f"t{at}"
        faulty = FaultyStore(LocalStore(place), lambda n, v, k, at=at: fault if n == at else None)
        try:
            clone(source.context, faulty, hold=True)
        except (Killed, TablefmtError):
            pass
        held = [tag["name"] for tag in source.tags().to_pylist()]
        if tablefmt.exists(place):
            assert len(held) == 1, at
        elif fault == "refused":
            assert held == [], at
        for name in held:
            source.alter.drop_tag(name)
        if not faulty.fired:
            break
    else:
        raise AssertionError("the clone never ran without a fault")


@BOTH
def test_one_of_two_creators_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shallow: bool
) -> None:
    """CFL-4: the loser leaves no file."""
    source = new_table(LocalStore(tmp_path / "source"))
    source.append(rows(1, 2))
    inner = getattr(create_module, "commit")  # noqa: B009

    def late(store: Any, *given: Any) -> Any:
        monkeypatch.undo()
        tablefmt.create(tmp_path / "copy", "other INT")
        return inner(store, *given)

    monkeypatch.setattr(create_module, "commit", late)
    with pytest.raises(ProtocolChangedException):
        source.clone(tmp_path / "copy", shallow=shallow)
    assert tablefmt.open(tmp_path / "copy").schema.names == ["other"]
    assert not list((tmp_path / "copy").rglob("*.parquet"))


def test_places_and_arguments_that_are_refused(tmp_path: Path) -> None:
    """CLN-1: no object is written."""
    source = new_table(LocalStore(tmp_path / "source"))
    source.append(rows(1))
    for bad, error in {
        tmp_path / "source": TableExistsError,
        tmp_path / "source" / "inner": InvalidArgumentError,
        tmp_path: InvalidArgumentError,
    }.items():
        with pytest.raises(error):
            source.clone(bad)
    with pytest.raises(InvalidArgumentError, match="deep clone needs none"):
        source.clone(tmp_path / "copy", shallow=False, hold=True)
    with pytest.raises(InvalidRangeError):
        source.clone(tmp_path / "copy", version=1, timestamp="2024-01-01")
    with pytest.raises(VersionNotFoundError):
        source.clone(tmp_path / "copy", version=7)
    with pytest.raises(VersionNotFoundError):
        source.clone(tmp_path / "copy", version="none")
    with pytest.raises(InvalidArgumentError):
        source.clone(tmp_path / "copy", shallow="yes")  # type: ignore[arg-type]
    assert not (tmp_path / "copy").exists()


def test_zeros_of_a_float_partition(tmp_path: Path) -> None:
    """CLN-2, IMP-4: the entry's 0.0 would replace a -0.0 of the file."""
    source = tablefmt.create(tmp_path / "source", "f DOUBLE, id INT", partition_by="f")
    source.append({"f": [1.5, float("nan")], "id": pa.array([1, 2], pa.int32())})
    assert source.clone(tmp_path / "one").count() == 2
    source.append({"f": [-0.0], "id": pa.array([3], pa.int32())})
    with pytest.raises(UnsupportedFeatureError, match="shallow=False"):
        source.clone(tmp_path / "two")
    deep = source.clone(tmp_path / "two", shallow=False)
    assert alike(deep.to_arrow()) == alike(source.to_arrow())
    assert "-0.0" in str(deep.to_arrow(where="id = 3").to_pylist())


def test_requests_of_clones() -> None:
    """CLN-2: a shallow clone costs as much as an empty table; a deep one, 3 requests a file."""
    source = new_table(partitioned=True)
    source.append(rows(*range(20), p=[f"p{i}" for i in range(20)]))
    first = CountingStore(memory())
    clone(source.context, first, shallow=True)
    asked = {kind: n for kind, n in first.tally.sums().items() if n}
    empty = CountingStore(memory())
    create_module.create(empty, "id INT")
    made = {kind: n for kind, n in empty.tally.sums().items() if n}
    assert asked[Request.PUT] == made[Request.PUT]
    second = CountingStore(memory())
    clone(source.context, second, shallow=False)
    copied = second.tally.sums()
    assert copied[Request.PUT] - asked[Request.PUT] == 20
    assert copied[Request.GET] - asked[Request.GET] == 20
    assert handle(second).count() == 20
    assert_sound(second)


@pytest.mark.slow
@BOTH
def test_a_clone_replaces_a_table(tmp_path: Path, shallow: bool) -> None:
    """CLN-5: other columns of the same names, and later ones; the history and tags stay."""
    table = tablefmt.create(
        tmp_path / "table", "n STRING, id BIGINT, gone INT, renamed INT", properties={"user.a": "1"}
    )
    table.append([{"n": "x", "id": 1, "gone": 1, "renamed": 2}])
    table.alter.set_tag("before")
    table.alter.drop_column("gone")
    old = alike(table.to_arrow())
    source = evolved(str(tmp_path / "source"))
    source.alter.add_constraint("small", "id < 1000")
    expected = alike(source.to_arrow())
    made = source.clone(table.uri, shallow=shallow, replace=True)
    again = reopened(made, source.uri) if shallow else reopened(made)
    assert again.id == table.id
    assert again.version > table.version
    assert alike(again.to_arrow()) == expected
    assert alike(again.to_arrow(where="num = 42 and part = 1")) == alike(
        source.to_arrow(where="num = 42 and part = 1")
    )
    assert again.tags()["name"].to_pylist() == ["before"]
    assert alike(again.to_arrow(version=table.version)) == old
    assert (again.partition_by, again.properties) == (["part"], {})
    assert dict(again.history(1).to_pylist()[0]["operationParameters"])["replaces"] == "true"
    assert logdump.read(again.uri)["findings"] == []
    with pytest.raises(tablefmt.errors.ConstraintViolationError):
        again.append([{"id": 1000}])
    # Names that files have, and no column of the table.
    for name in ("a b", "gone2"):
        again.alter.add_column(name, "STRING")
        assert set(again.to_arrow()[name].to_pylist()) == {None}
    again.alter.drop_column("gone")
    again.alter.add_column("gone", "STRING")
    assert set(again.to_arrow()["gone"].to_pylist()) == {None}
    again.delete("id = 20")
    again.compact("major")
    rest = [i for i in source.to_arrow()["id"].to_pylist() if i != 20]
    assert sorted(reopened(made).to_arrow()["id"].to_pylist()) == sorted(rest)
    again.restore(version="before")
    assert alike(again.to_arrow()) != expected
    assert again.verify(deep=True).ok
    again.vacuum(**NOW)
    assert source.verify(deep=True).ok


@BOTH
def test_a_clone_is_made_again(tmp_path: Path, shallow: bool) -> None:
    """CLN-5: the columns of the same source stay the same ones, and need no names."""
    source = evolved(str(tmp_path / "source"))
    place = tmp_path / "copy"
    source.clone(place, shallow=shallow, replace=True)
    source.alter.add_column("later", "INT", default=3)
    source.alter.rename_column("num", "number")
    source.append(source.scan(limit=1))
    made = source.clone(place, shallow=shallow, replace=True)
    again = reopened(made, source.uri) if shallow else reopened(made)
    assert alike(again.to_arrow()) == alike(source.to_arrow())
    ours, theirs = (t.context.view.head.metadata for t in (again, source))
    assert ours.schema == theirs.schema
    assert all(each.names == {} for each in ours.imports.values())
    assert (len(ours.imports) > 0) == shallow
    assert alike(again.to_arrow(version=0)) == alike(source.to_arrow(version=source.version - 3))
    assert logdump.read(again.uri)["findings"] == []
    with pytest.raises(InvalidArgumentError, match="clone of itself"):
        source.clone(source.uri, replace=True)
    again.alter.set_properties({"appendOnly": "true"})
    with pytest.raises(tablefmt.errors.ConstraintViolationError, match="append-only"):
        source.clone(place, shallow=shallow, replace=True)
    files = {p.name for p in place.rglob("data/**/*.parquet")}
    again.vacuum(**NOW)
    assert {p.name for p in place.rglob("data/**/*.parquet")} <= files


def copies(place: Path) -> set[str]:
    """Return the data files in a folder."""
    return {str(path.relative_to(place)) for path in place.rglob("data/**/*.parquet")}


@pytest.mark.parametrize("over", ["nothing", "other columns"])
def test_a_deep_clone_made_again_copies_what_is_new(tmp_path: Path, over: str) -> None:
    """CLN-6: deleted rows, removed files and new ones follow; every version stays readable."""
    source, place = (
        new_table(LocalStore(tmp_path / "source"), deleteMode="merge-on-read"),
        tmp_path / "t",
    )
    for number in range(4):
        source.append(rows(*range(number * 10, number * 10 + 5)))
    if over == "other columns":
        tablefmt.create(place, {"id": ["x"], "q": [1.5]})
    wanted = []

    def again(new: int) -> tablefmt.Table:
        had = copies(place)
        made = source.clone(place, shallow=False, replace=True)
        assert len(copies(place) - had) == new
        wanted.append((made.version, alike(source.to_arrow())))
        return reopened(made)

    again(4)
    again(0)
    source.delete("id IN (1, 12)")
    source.append(rows(50))
    again(1)
    source.delete("id >= 20 AND id < 30")
    source.compact("major")
    made = again(1)
    # The next clone takes back what was changed in the table, and uses its copies again.
    made.delete("id = 0")
    made.update({"p": "'mine'"}, "id = 2")
    made = again(0)
    for version, expected in wanted:
        assert alike(made.to_arrow(version=version)) == expected
    assert logdump.read(made.uri)["findings"] == []
    assert made.verify(deep=True).ok
    if over == "nothing":
        changes = made.changes(after_version=wanted[0][0]).to_arrow().to_pylist()
        total = Counter(wanted[0][1])
        for each in changes:
            came = each["_change_type"] in ("insert", "update_postimage")
            total[repr({name: each[name] for name in ("id", "p")})] += 1 if came else -1
        assert {text: n for text, n in total.items() if n} == Counter(wanted[-1][1])
    made.vacuum(**NOW)
    assert alike(reopened(made).to_arrow()) == wanted[-1][1]
    assert reopened(made).verify(deep=True).ok


def test_a_copy_that_the_table_lost_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CLN-6: a compaction and a vacuum come between the copies and the commit."""
    source, place = new_table(LocalStore(tmp_path / "source")), tmp_path / "t"
    for number in range(3):
        source.append(rows(number))
    made = source.clone(place, shallow=False)
    real = clone_replacement.replace_by

    def late(*given: Any) -> Any:
        made.compact("major")
        made.vacuum(**NOW)
        return real(*given)

    monkeypatch.setattr(clone_module, "replace_by", late)
    again = source.clone(place, shallow=False, replace=True)
    assert alike(reopened(again).to_arrow()) == alike(source.to_arrow())
    assert reopened(again).verify(deep=True).ok


def test_a_vacuum_of_a_copy_before_the_commit_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CLN-6, RET-2: no entry names a copy that was removed."""
    source, place = new_table(LocalStore(tmp_path / "source")), tmp_path / "t"
    for number in range(3):
        source.append(rows(number))
    made, calls = source.clone(place, shallow=False), []
    real = clone_copies.CloneCopies.paths

    def late(self: Any, table: Any) -> list[str]:
        found = real(self, table)
        calls.append(table)
        if len(calls) == 2:
            made.compact("major")
            made.vacuum(**NOW)
        return found

    monkeypatch.setattr(clone_copies.CloneCopies, "paths", late)
    with pytest.raises(VersionNotFoundError):
        source.clone(place, shallow=False, replace=True)
    assert alike(reopened(made).to_arrow()) == alike(source.to_arrow())
    again = source.clone(place, shallow=False, replace=True)
    assert again.version > made.version
    assert reopened(again).verify(deep=True).ok


@pytest.mark.parametrize("fault", ["kill_before", "refused"])
def test_a_clone_made_again_that_stops_changes_all_or_no_row(tmp_path: Path, fault: Fault) -> None:
    """CLN-6: the copies that the table had stay, and a further try is whole."""
    source = new_table(LocalStore(tmp_path / "source"))
    source.append(rows(1, 2, 3))
    first, first_rows = source.version, alike(source.to_arrow())
    source.append(rows(4))
    source.delete("id = 2")
    done = alike(source.to_arrow())
    for at in range(100):
        place = tmp_path / f"t{at}"
        source.clone(place, shallow=False, version=first)
        faulty = FaultyStore(LocalStore(place), lambda n, v, k, at=at: fault if n == at else None)
        try:
            clone(source.context, faulty, shallow=False, replace=True)
        except (Killed, TablefmtError):
            pass
        found = tablefmt.open(place)
        assert alike(found.to_arrow()) in (done, first_rows), at
        assert found.verify(deep=True).ok
        if not faulty.fired:
            assert (alike(found.to_arrow()), len(copies(place))) == (done, 2)
            break
        source.clone(place, shallow=False, replace=True)
        assert alike(tablefmt.open(place).to_arrow()) == done
    else:
        raise AssertionError("the clone never ran without a fault")


def test_a_file_that_only_looks_like_a_copy_is_copied(tmp_path: Path) -> None:
    """CLN-6: the log must say the same length, rows and checksum."""
    source, place = new_table(LocalStore(tmp_path / "source")), tmp_path / "t"
    source.append(rows(1))
    made = source.clone(place, shallow=False)
    (name,) = copies(place)
    shown = made.scan().files()["path"][0].as_py()
    assert shown == name
    other = new_table(LocalStore(tmp_path / "other"))
    other.append(rows(1))
    # Another table with the same rows has other names.
    assert len(copies(Path(other.clone(place, shallow=False, replace=True).uri))) == 2


@BOTH
def test_clones_of_a_table_of_several_partitionings(tmp_path: Path, shallow: bool) -> None:
    """EVO-6, CLN-5: in a free place, over the same columns, and over other ones with other ids."""
    source = evolving(LocalStore(tmp_path / "source"))
    other = tablefmt.create(
        tmp_path / "other", "zz INT, id STRING, ts TIMESTAMP", partition_by=["zz", "years(ts)"]
    )
    other.append([{"zz": 1, "id": "x"}])
    expected, listed = alike(source.to_arrow()), source.scan().partitions().to_pylist()
    for place in ("free", "free", "other"):
        made = source.clone(tmp_path / place, shallow=shallow, replace=True)
        again = reopened(made, source.uri) if shallow else reopened(made)
        assert alike(again.to_arrow()) == expected
        assert again.scan().partitions().to_pylist() == listed
        assert again.partition_by == ["days(ts)"]
        for where in ("region = 'EU'", "ts < TIMESTAMP '2026-01-02 00:00:00+00:00'"):
            assert alike(again.to_arrow(where=where)) == alike(source.to_arrow(where=where))
        assert logdump.read(again.uri)["findings"] == []
    again.delete("id = 2")
    again.compact("major")
    again.repartition()
    assert alike(again.to_arrow()) == alike(source.to_arrow(where="id <> 2"))
    assert again.verify(deep=True).ok


@pytest.mark.parametrize("fault", ["kill_before", "refused"])
@BOTH
def test_a_replacement_stopped_at_any_request_changes_all_or_no_row(
    tmp_path: Path, fault: Fault, shallow: bool
) -> None:
    """CLN-5."""
    source = new_table(LocalStore(tmp_path / "source"))
    source.append(rows(1, 2, 3))
    source.delete("id = 2")
    done = alike(source.to_arrow())
    for at in range(100):
        place = tmp_path / f"t{at}"
        tablefmt.create(place, {"p": [7]})
        faulty = FaultyStore(LocalStore(place), lambda n, v, k, at=at: fault if n == at else None)
        try:
            clone(source.context, faulty, shallow=shallow, replace=True)
        except (Killed, TablefmtError):
            pass
        found = tablefmt.open(place, storage_options={"import_roots": source.uri})
        assert alike(found.to_arrow()) in (done, alike({"p": [7]})), at
        if not faulty.fired:
            assert alike(found.to_arrow()) == done
            break
    else:
        raise AssertionError("the clone never ran without a fault")


@pytest.mark.broken_tables
def test_the_second_reader_looks_at_the_files_of_allowed_folders(tmp_path: Path) -> None:
    """IMP-3, CLN-4."""
    source = new_table(LocalStore(tmp_path / "source"))
    source.append(rows(1, 2))
    uri = source.clone(tmp_path / "copy").uri

    def findings(*roots: str) -> list[str]:
        options = {"import_roots": ",".join(roots)}
        return [one["rule"] for one in logdump.read(uri, options, files=True)["findings"]]

    assert findings(source.uri) == findings(str(tmp_path)) == []
    assert findings() == findings(f"{source.uri}x", str(tmp_path / "copy")) == ["IMP-3"]
    for file in (tmp_path / "source").rglob("data/**/*.parquet"):
        file.unlink()
    assert findings(source.uri) == ["ADD-5"]


@BOTH
def test_generated_columns_come_along(tmp_path: Path, shallow: bool) -> None:
    """CLN-1, CLN-5: a new table has them, and one whose columns had other ids."""
    source = tablefmt.create(
        tmp_path / "source", "id BIGINT, twice BIGINT GENERATED ALWAYS AS (id * 2)"
    )
    source.append([{"id": 1}, {"id": 2}])
    tablefmt.create(tmp_path / "over", "twice STRING, id STRING")
    for place in ("new", "over"):
        made = source.clone(tmp_path / place, shallow=shallow, replace=True)
        assert made.schema == source.schema
        made.append([{"id": 5}])
        assert sorted(made.to_arrow()["twice"].to_pylist()) == [2, 4, 10]
        with pytest.raises(TablefmtError):
            made.append([{"id": 1, "twice": 7}])
        assert made.context.view.head.protocol.writer[0] == "generatedColumns"
        assert logdump.read(made.uri)["findings"] == []
