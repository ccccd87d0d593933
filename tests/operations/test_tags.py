"""Tags: names of versions. They are set, read, kept by vacuum and log expiry, and dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import logdump
import orjson
import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import (
    CommitRejectedError,
    ConcurrentModificationException,
    InvalidArgumentError,
    InvalidRangeError,
    MetadataChangedException,
    ProtocolChangedException,
    TableExistsError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.log.codec import decode, encode
from tablefmt.log.object_names import entry_key
from tablefmt.maintenance import retention
from tablefmt.model import features
from tablefmt.model.log_entry import Metadata
from tablefmt.model.schema import Schema
from tablefmt.model.tags import Tag, kept_for_tags, tags_of
from tablefmt.session.staging import commit_with_retries
from tablefmt.snapshot import head
from tests.places import GOLDEN
from tests.tables import Clock, Dated, assert_sound, by_hand, handle, ids, memory, new_table, rows

HOUR = 3_600_000_000
DAY = 24 * HOUR


def tagged(clock: Clock | None = None) -> tuple[Any, Any]:
    """A table with a version for each of five rows, an hour apart, and a tag of version 2."""
    clock = clock or Clock()
    store = Dated(clock)
    table = new_table(store, clock=clock)
    for n in range(5):
        clock.micros += HOUR
        table.append(rows(n))
    table.alter.set_tag("2026-Q3", version=2)
    return store, table


def test_a_tag_names_a_version_wherever_one_is_given() -> None:
    """TAG-1, TAG-3."""
    store, table = tagged()
    assert table.context.view.head.protocol.writer == ("tags",)
    assert table.context.view.head.protocol.reader == ()
    assert table.properties == {}
    assert ids(handle(store)) == [0, 1, 2, 3, 4]
    table.alter.set_tag("übrigens, c'est ça", version="2026-Q3")
    table.append(rows(9))
    at = "2026-Q3"
    assert sorted(table.to_arrow(version=at)["id"].to_pylist()) == [0, 1]
    assert table.count(version="übrigens, c'est ça") == 2
    changes = table.changes(after_version=at, ending_version=5).to_arrow()
    assert sorted(changes["id"].to_pylist()) == [2, 3, 4]
    assert table.changes(starting_version=0, ending_version=at).to_arrow().num_rows == 2
    assert table.transaction(read_version=at).read_version == 2
    assert tablefmt.polars.scan(table, version=at).collect().height == 2
    assert len(tablefmt.duckdb.relation(table, version=at)) == 2
    assert table.restore(version=at).version == table.version
    assert ids(table) == by_hand(store) == [0, 1]
    # The tags stay after the restore.
    assert table.tags()["name"].to_pylist() == [at, "übrigens, c'est ça"]
    assert table.tags()["version"].to_pylist() == [2, 2]
    operations = table.history().to_pylist()
    assert [h["operation"] for h in operations[:4]] == ["RESTORE", "WRITE", "SET TAG", "SET TAG"]
    assert dict(operations[3]["operationParameters"])["tag"] == at
    assert_sound(store)


@pytest.mark.parametrize(
    "name", ["", " ", "7", "007", "-7", " a", "a ", "a\nb", "a\0", "\u202eb", "x" * 129, None, 5]
)
def test_an_invalid_name_is_refused(name: Any) -> None:
    """TAG-1: the version stays as it was."""
    _, table = tagged()
    version = table.version
    for change in (table.alter.set_tag, table.alter.drop_tag):
        with pytest.raises(InvalidArgumentError, match=r"name of a tag|there is no tag"):
            change(name)
    assert table.version == version


@pytest.mark.parametrize("name", ["1", "", " a", "a\x1b[31m", "x" * 2000])
def test_a_tag_that_another_writer_named_wrongly_can_be_dropped(name: str) -> None:
    """TAG-1: it would keep its version from vacuum for ever."""
    store = memory()
    table = new_table(store)
    table.append(rows(1))
    table.alter.set_comment("changed")
    entry = decode(store.get(entry_key(table.version)), table.version).entry
    assert entry.metadata is not None
    properties = {**entry.metadata.properties, f"tag.{name}": '{"version":1}'}
    changed = replace(entry, metadata=replace(entry.metadata, properties=properties))
    store.put(entry_key(table.version), encode(changed))
    assert handle(store).tags()["name"].to_pylist() == [name]
    handle(store).alter.drop_tag(name)
    assert handle(store).tags().num_rows == 0


def test_an_unknown_version_or_tag_is_refused() -> None:
    """TAG-1, TIM-4."""
    _, table = tagged()
    version = table.version
    for given, error in (
        (99, VersionNotFoundError), (-1, VersionNotFoundError), ("nothing", VersionNotFoundError),
        ("3", InvalidRangeError), (1.5, InvalidRangeError), (True, InvalidRangeError),
    ):  # fmt: skip
        with pytest.raises(error):
            table.alter.set_tag("b", version=given)
        with pytest.raises(error):
            table.to_arrow(version=given)
        with pytest.raises(error):
            table.restore(version=given)
    for wrong in (-1, "soon", timedelta(days=-1), float("nan")):
        with pytest.raises(InvalidRangeError):
            table.alter.set_tag("b", retain=wrong)
    with pytest.raises(InvalidArgumentError, match="2026-Q3"):
        table.alter.drop_tag("2026-Q4")
    assert table.version == version
    for properties in ({"tag.a": "x"}, {"tag.2026-Q3": '{"version":1}'}):
        with pytest.raises(tablefmt.errors.SchemaMismatchError, match="unknown table property"):
            table.alter.set_properties(properties)


def test_a_tag_moves_and_a_repeated_one_is_no_version() -> None:
    """TAG-1."""
    _, table = tagged()
    assert table.alter.set_tag("2026-Q3", version=2).no_op
    table.alter.set_tag("2026-Q3", version=4)
    assert table.count(version="2026-Q3") == 4
    table.alter.set_tag("2026-Q3")
    assert table.tags()["version"].to_pylist() == [7]
    table.alter.drop_tag("2026-Q3")
    assert table.tags().num_rows == 0
    with pytest.raises(VersionNotFoundError, match="not the name of a tag"):
        table.count(version="2026-Q3")


def test_vacuum_and_log_expiry_keep_a_tagged_version_until_its_time() -> None:
    """TAG-2, RET-4, RET-9."""
    clock = Clock()
    store, table = tagged(clock)
    table.alter.set_tag("short", version=1, retain=timedelta(days=60))
    assert table.tags()["retain_until"].null_count == 1
    table.overwrite(rows(100))
    clock.micros += 50 * DAY
    table.append(rows(101))
    clock.micros += 1 * DAY
    fresh = handle(store, clock)
    assert {one.work for one in fresh.maintain(dry_run=True).next} == set()
    assert fresh.vacuum(dry_run=False).oldest == 0
    assert fresh.count(version="short") == 1
    fresh.alter.drop_tag("2026-Q3")
    assert fresh.vacuum(dry_run=False).oldest <= 1
    assert fresh.expire_log(dry_run=False).log_start <= 1
    assert fresh.count(version="short") == 1
    # Its time has passed.
    clock.micros += 20 * DAY
    fresh.append(rows(102))
    clock.micros += 1 * DAY
    assert fresh.vacuum(dry_run=False).deleted == 5
    late = handle(store, clock)
    assert late.tags().to_pylist()[0]["can_be_read"] is False
    with pytest.raises(VersionNotFoundError):
        late.count(version="short")
    with pytest.raises(VersionNotFoundError):
        late.alter.set_tag("again", version=1)
    assert sorted(late.to_arrow()["id"].to_pylist()) == [100, 101, 102]
    assert_sound(store)


def test_a_machine_whose_clock_is_behind_keeps_a_version_as_long_as_it_said() -> None:
    """TAG-2: the table was idle for longer than the tag keeps its version."""
    store = Dated(clock := Clock())
    table = new_table(store, clock=clock)
    table.append(rows(1))
    clock.micros += 100 * DAY
    behind = handle(store, Clock(clock.micros - 300 * DAY))
    behind.alter.set_tag("kept", version=1, retain=timedelta(days=60))
    (tag,) = handle(store, clock).tags().to_pylist()
    assert int(tag["retain_until"].timestamp() * 1e6) == clock.micros + 60 * DAY
    handle(store, clock).overwrite(rows(2))
    clock.micros += 50 * DAY
    late = handle(store, clock)
    late.append(rows(3))
    late.vacuum(dry_run=False)
    assert ids(handle(store, clock), 1) == [1]


def test_a_tag_of_a_version_below_the_horizon_keeps_nothing() -> None:
    """TAG-2: a horizon stays where it is for a writer whose clock is behind."""
    clock = Clock()
    store, table = tagged(clock)
    table.alter.drop_tag("2026-Q3")
    table.alter.set_tag("short", version=1, retain=timedelta(days=10))
    table.overwrite(rows(100))
    clock.micros += 8 * DAY
    for n in (101, 102):
        table.overwrite(rows(n))
    clock.micros += 3 * DAY
    forced: Any = {"breaks_running_transactions": True, "dry_run": False}
    oldest = handle(store, clock).vacuum(retention=timedelta(days=4), **forced).oldest
    assert 1 < oldest < table.version
    clock.micros -= 2 * DAY
    assert handle(store, clock).vacuum(retention=0, **forced).oldest > oldest
    assert handle(store, clock).expire_log(retention=0, **forced).log_start > 1
    assert ids(handle(store, clock)) == by_hand(store) == [102]
    assert_sound(store)


def with_old_files(clock: Clock) -> tuple[Any, Any]:
    """A table without tags, whose five first files a vacuum removes."""
    store, table = tagged(clock)
    table.alter.drop_tag("2026-Q3")
    table.overwrite(rows(100))
    clock.micros += 50 * DAY
    table.append(rows(101))
    clock.micros += 1 * DAY
    return store, table


def test_a_tag_that_is_set_while_a_vacuum_plans_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """TAG-2: the horizon is decided again after the conflict, and an expiry gives up."""
    clock = Clock()
    store, _ = with_old_files(clock)
    other = handle(store, clock)
    plain, meanwhile = commit_with_retries, [lambda: other.alter.set_tag("t", version=3)]

    def late(context: Any, stage: Any, *more: Any) -> Any:
        def staged(at: Any, txn: Any) -> Any:
            made = stage(at, txn)
            if meanwhile:
                meanwhile.pop()()
            return made

        return plain(context, staged, *more)

    monkeypatch.setattr(retention, "commit_with_retries", late)
    report = handle(store, clock).vacuum(dry_run=False)
    assert report.oldest <= 3
    assert handle(store, clock).count(version="t") == 3
    other.alter.drop_tag("t")
    meanwhile.append(lambda: other.alter.set_tag("t", version=3))
    with pytest.raises(CommitRejectedError, match="keeps version 3"):
        handle(store, clock).expire_log(dry_run=False)
    assert handle(store, clock).count(version="t") == 3
    assert_sound(store)


def test_a_vacuum_that_was_first_makes_a_tag_fail() -> None:
    """TAG-2: the version is checked on the parent."""
    clock = Clock()
    store, _ = with_old_files(clock)
    staged = handle(store, clock).transaction().alter.set_tag("t", version=3)
    assert handle(store, clock).vacuum(dry_run=False).deleted == 5
    version = handle(store, clock).version
    with pytest.raises(VersionNotFoundError):
        staged.commit()
    assert handle(store, clock).version == version


WRITES: dict[str, Callable[[Any], Any]] = {
    "append": lambda txn: txn.append(rows(50)),
    "delete": lambda txn: txn.delete("id = 1"),
    "overwrite": lambda txn: txn.overwrite(rows(50)),
    "compact": lambda txn: txn.compact(),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("granularity", ["row", "file", "transaction"])
def test_a_tag_does_not_disturb_writers(name: str, granularity: str) -> None:
    """CFL-5, TAG-2: in either order. The first tag of a table is a change of protocol."""
    store, table = tagged()
    table.alter.set_properties({"conflictGranularity": granularity})
    txn = WRITES[name](table.transaction())
    table.alter.set_tag("meanwhile", version=3)
    expected = txn.commit()
    assert expected.version == table.context.view.head.version
    staged = table.transaction().alter.set_tag("after", version=4)
    WRITES[name](handle(store).transaction()).commit()
    staged.commit()
    assert handle(store).tags()["name"].to_pylist() == ["2026-Q3", "after", "meanwhile"]
    assert ids(handle(store)) == by_hand(store)
    assert_sound(store)


def test_changes_of_metadata_and_tags_conflict() -> None:
    """CFL-4, CFL-5: two writers race for one tag, and an ALTER must not lose one."""
    store = memory()
    table = new_table(store)
    table.append(rows(1))
    first, second = (handle(store).transaction().alter.set_tag("t") for _ in range(2))
    first.commit()
    with pytest.raises(ProtocolChangedException):
        second.commit()
    for mine, theirs in (
        (lambda a: a.set_tag("t", version=0), lambda a: a.set_tag("t", version=2)),
        (lambda a: a.drop_tag("t"), lambda a: a.set_tag("u")),
        (lambda a: a.add_column("x", "INT"), lambda a: a.set_tag("v")),
        (lambda a: a.set_tag("w"), lambda a: a.add_column("y", "INT")),
    ):
        staged = mine(handle(store).transaction().alter)
        theirs(handle(store).alter)
        with pytest.raises(MetadataChangedException):
            staged.commit()
    assert sorted(tags_of(handle(store).context.view.head.metadata)) == ["t", "u", "v"]
    assert_sound(store)


def test_a_writer_that_does_not_know_tags_must_not_vacuum(monkeypatch: pytest.MonkeyPatch) -> None:
    """TAG-3, ENT-7: it reads, and refuses to write, to vacuum and to expire entries."""
    clock = Clock()
    store, _ = with_old_files(clock)
    old = frozenset(features.WRITER_FEATURES - {"tags"})
    monkeypatch.setattr(head, "WRITER_FEATURES", old)
    table = handle(store, clock)
    files = len(list(store.list_after("")))
    assert ids(table) == [100, 101]
    assert table.count(version=2) == 2
    for work in (
        lambda: table.append(rows(9)),
        lambda: table.alter.set_properties({"user.a": "b"}),
        lambda: table.restore(version=1),
        lambda: table.vacuum(dry_run=False),
        lambda: table.expire_log(dry_run=False),
    ):
        with pytest.raises(UnsupportedFeatureError, match="tags"):
            work()
    assert len(list(store.list_after(""))) == files


def test_a_replaced_table_keeps_its_tags_and_a_copied_definition_has_none() -> None:
    """TAG-3."""
    from tablefmt.session.metadata_changes import for_new_table, redefined

    _, table = tagged()
    metadata = table.context.view.head.metadata
    other = tablefmt.create("memory://redefined", "a INT", exist_ok=True).context.view.head
    assert tags_of(redefined(metadata, other.metadata)) == {"2026-Q3": Tag(2)}
    assert for_new_table(metadata).properties == {}
    tablefmt.create("memory://tagged-twice", "id INT").alter.set_tag("t")
    tablefmt.create("memory://tagged-twice", "id INT", exist_ok=True)
    with pytest.raises(TableExistsError):
        tablefmt.create(
            "memory://tagged-twice", "id INT", properties={"user.a": "b"}, exist_ok=True
        )


@pytest.mark.parametrize(
    "text", ["", "7", "[]", "{}", '{"version":-1}', '{"version":1.0}', '{"version":true}',
             '{"version":1,"until":null}', '{"version":1,"x":2}', '{"version":9223372036854775808}',
             '{"version":1,"until":253402300800000000}', "{"],
)  # fmt: skip
def test_a_property_of_another_form_is_no_tag(text: str) -> None:
    """TAG-1."""
    good = {"tag.a": '{"version":1,"until":5}', "tag.b": '{"version":0}', "user.tag.c": "x"}
    metadata = Metadata(Schema((), 0), properties={**good, "tag.bad": text})
    assert tags_of(metadata) == {"a": Tag(1, 5), "b": Tag(0)}
    assert [kept_for_tags(metadata, now, 9, 0) for now in (4, 5)] == [0, 0]
    metadata = Metadata(Schema((), 0), properties={"tag.a": good["tag.a"], "tag.bad": text})
    assert [kept_for_tags(metadata, now, 9, 0) for now in (4, 5)] == [1, 9]
    assert [kept_for_tags(metadata, 4, 9, oldest) for oldest in (1, 2)] == [1, 9]


def test_of_many_tags_set_at_once_one_is_committed() -> None:
    """TAG-2: every tag that was set is there, or its writer got an error."""
    store, _ = tagged()
    made = []
    staged = [handle(store).transaction().alter.set_tag(f"t{n}", version=n % 3) for n in range(8)]
    for n, txn in enumerate(staged):
        try:
            txn.commit()
            made.append(f"t{n}")
        except ConcurrentModificationException:
            pass
    assert made == ["t0"]
    assert handle(store).tags()["name"].to_pylist() == ["2026-Q3", "t0"]
    assert isinstance(handle(store).tags(), pa.Table)


@pytest.mark.parametrize("case", ["tags", "tags-other-forms"])
def test_both_readers_find_the_tags_of_another_writer(case: str) -> None:
    """TAG-1, TAG-3."""
    expected = orjson.loads((GOLDEN / case / "expected.json").read_bytes())["tags"]
    uri = str(GOLDEN / case / "table")
    assert logdump.read(uri)["state"]["tags"] == expected
    newest = tablefmt.open(uri).context.view.head
    found = {name: tag.version for name, tag in tags_of(newest.metadata).items()}
    assert found == {name: tag["version"] for name, tag in expected.items()}
    assert newest.protocol.writer == ("tags",)
