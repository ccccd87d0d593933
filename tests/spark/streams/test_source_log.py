"""STR-1 .. STR-6: extent and content of batches, without Spark: rows are read by Arrow."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.changes.change_reader import Answer
from tablefmt.changes.change_schema import CHANGE_COLUMNS
from tablefmt.errors import (
    ChangesExpiredError,
    InvalidRangeError,
    LogGapError,
    SchemaMismatchError,
    TableNotFoundError,
    TableReplacedError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.log.object_names import entry_key
from tablefmt.maintenance.drop import drop_at
from tablefmt.model.times import show_time
from tablefmt.session.commit_options import CommitOptions
from tablefmt.spark.streams.stream_options import parse_stream_options
from tablefmt.spark.streams.stream_progress import Position, StreamOffset
from tablefmt.spark.streams.stream_source import SKIPPED_MAX, StreamSource
from tablefmt.store.object_store import Store
from tablefmt.store.store_wrappers import CountingStore
from tests.changes.histories import History, Version
from tests.log.test_horizon import raise_horizon
from tests.tables import Clock, behind, extend, handle, memory, new_table, rows

_numbers = itertools.count()


def load(table: tablefmt.Table, **options: Any) -> StreamSource:
    """A stream of the table as it is now, by a handle of its own."""
    view = handle(table.context.store).context.view
    return StreamSource(view, parse_stream_options(options, "UTC"), view.head.version)


def read(source: StreamSource, start: StreamOffset | None, end: StreamOffset) -> Counter[Any]:
    """Rows as (version, type, row)."""
    schema = source.schema
    answer = Answer(source.view.store, schema, schema.fields, CHANGE_COLUMNS)
    batches = answer.batches(source.batch(start, end))
    found = pa.Table.from_batches(batches, answer.shape).to_pylist()
    marks = ("_commit_version", "_change_type")
    return Counter(
        (*(row[m] for m in marks), tuple(v for n, v in row.items() if n not in answer.marks.names))
        for row in found
    )


def batches(
    table: tablefmt.Table, start: StreamOffset | None = None, **options: Any
) -> Iterator[tuple[StreamOffset, Counter[Any]]]:
    """Yield the batches of queries that are stopped after every batch, and killed within every one.

    A batch whose offsets are known and that was not finished is planned once more by the next one.
    """
    while True:
        source = load(table, **options)
        end = source.next_offset(start, limited=True)
        if end == start:
            return
        again = load(table, **options)
        known = None if start is None else StreamOffset.from_json(start.to_json())
        found = read(again, known, StreamOffset.from_json(end.to_json()))
        assert found == read(source, start, end)
        yield end, found
        start = end


def narrowed(history: History) -> bool:
    """A restore brought a narrower type back: rows from between do not fit."""
    last = {c.number: c.kind for c in history.now.columns}
    every = ((c.number, c.kind) for version in history.versions for c in version.columns)
    return any(kind == "BIGINT" and last.get(number) == "INT" for number, kind in every)


def by_version(found: Counter[Any]) -> dict[int, Counter[Any]]:
    """(type, row) by version."""
    versions: dict[int, Counter[Any]] = {}
    for (version, *change), count in found.items():
        versions.setdefault(version, Counter())[tuple(change)] += count
    return versions


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("limits", [{"maxRowsPerTrigger": 3}, {"maxBytesPerTrigger": "3kb"}])
def test_a_feed_of_a_random_history_is_that_of_the_model(seed: int, limits: Any) -> None:
    """STR-3, STR-4: the feed begins with a snapshot in the middle, and restarts at every batch."""
    history = History(seed).run(5)
    begun = len(history.versions) - 1
    options = {"readChangeFeed": "true", **limits}
    source = load(history.table, **options)
    first = source.next_offset(None, limited=True)
    history.run(9)
    if narrowed(history):
        with pytest.raises(SchemaMismatchError, match="wider"):
            list(batches(history.table, first, **options))
        return

    found = read(load(history.table, **options), None, first)
    for end, of_batch in batches(history.table, first, **options):
        found += of_batch
        assert end.began == Position(begun, 0, True)

    versions, head = by_version(found), len(history.versions) - 1
    known = history.now.shown(history.versions[begun].rows, history.dropped_at(begun))
    assert versions.pop(begun, Counter()) == Counter(("insert", row) for row in known)
    for each in history.changes(begun, head):
        each.check(versions.pop(each.version, Counter()))
    assert versions == {}


def appended(version: Version) -> bool:
    return not version.restores and all(kind == "insert" for kind, _ in version.changes)


@pytest.mark.parametrize("seed", range(20, 23))
def test_appended_rows_of_a_random_history_are_those_of_the_model(seed: int) -> None:
    """STR-3: commits that did more are skipped completely."""
    history = History(seed).run(14)
    if narrowed(history):
        pytest.skip("another test tells what becomes of it")
    options: Any = {"startingVersion": 0, "skipChangeCommits": "true", "maxFilesPerTrigger": 2}

    found = sum((rows for _, rows in batches(history.table, **options)), Counter())

    versions, head = by_version(found), len(history.versions) - 1
    for each in history.changes(0, head):
        if appended(history.versions[each.version]):
            each.check(versions.pop(each.version, Counter()))
    assert versions == {}


@pytest.fixture
def table() -> tablefmt.Table:
    """Versions 1 to 4 append; each of version 3's two partitions is a file."""
    table = new_table(memory(), partitioned=True)
    table.append(rows(1))
    table.append(rows(2))
    table.append(rows(3, 4, p=["a", "b"]))
    table.append(rows(5))
    return table


def digest_of(store: Store, version: int) -> str:
    """Return the digest of an entry, as in offsets."""
    return hashlib.sha256(store.get(entry_key(version))).hexdigest()


def positions(table: tablefmt.Table, **options: Any) -> list[Position]:
    return [end.position for end, _ in batches(table, **options)]


def test_limits_cut_snapshots_and_appends_between_files_and_feeds_between_commits(
    table: tablefmt.Table,
) -> None:
    """STR-4: a byte more than allowed is allowed, and a batch is never empty for its limit."""
    one = {"maxFilesPerTrigger": 1}
    assert positions(table, **one) == [
        *(Position(4, n, True) for n in range(1, 5)), Position(5)
    ]  # fmt: skip
    assert positions(table, **one, startingVersion=2) == [
        Position(3), Position(3, 1), Position(4), Position(5)
    ]  # fmt: skip
    assert positions(table, **one, startingVersion=2, readChangeFeed="true") == [
        Position(3), Position(4), Position(5)
    ]  # fmt: skip
    sizes = table.scan().files()["size"].to_pylist()
    two = {"maxBytesPerTrigger": sizes[0] + 1}
    assert positions(table, **two) == [Position(4, 2, True), Position(4, 4, True), Position(5)]
    assert positions(table) == [Position(5)]
    counts = table.scan().files()["rows"].to_pylist()
    pair = {"maxRowsPerTrigger": max(counts) * 2}
    assert positions(table, **pair) == [Position(4, 2, True), Position(4, 4, True), Position(5)]
    for limit in (1, max(counts) * 2 - 1):
        single = {"maxRowsPerTrigger": limit}
        assert positions(table, **single) == positions(table, **one), limit


def test_a_stream_that_is_told_to_stop_at_what_is_there_reads_no_more(
    table: tablefmt.Table,
) -> None:
    """STR-4: AvailableNow."""
    source = load(table, startingVersion=4)
    source.stop_at_head()
    table.append(rows(6))

    end = source.next_offset(None, limited=True)

    assert end.position == Position(5)
    assert source.next_offset(end, limited=True) is end


def test_what_compaction_commits_is_nothing_to_a_stream(table: tablefmt.Table) -> None:
    """STR-3: the offset stays where it was, so that no batch is run."""
    source = load(table, startingVersion=4)
    end = source.next_offset(None, limited=True)
    table.compact("major")
    assert source.next_offset(end, limited=True) is end
    assert source.next_offset(end, limited=True) is end
    table.append(rows(6))

    following = source.next_offset(end, limited=True)

    assert following.position == Position(7)
    assert read(source, end, following) == Counter({(6, "insert", (6, "a")): 1})


def test_a_trigger_that_finds_nothing_asks_for_one_object(table: tablefmt.Table) -> None:
    """STR-6: a poll costs the next entry. A batch of one commit requests it and a few after it."""
    counting = CountingStore(table.context.store)
    view = behind(table, counting).context.view
    source = StreamSource(view, parse_stream_options({"startingVersion": 4}, "UTC"), 4)
    end = source.next_offset(None, limited=True)
    source.batch(None, end)
    counting.reset()

    for _ in range(3):
        assert source.next_offset(end, limited=True) is end
    assert counting.requests == [("get", entry_key(5))] * 3
    table.append(rows(6))
    counting.reset()
    following = source.next_offset(end, limited=True)
    assert len(source.batch(end, following)) == 1
    assert {key for _, key in counting.requests} <= {entry_key(v) for v in range(5, 15)}


@pytest.mark.slow
def test_a_backlog_is_read_once_however_small_its_batches_are() -> None:
    """STR-6: entries read ahead are kept for the next polls, which count their cost."""
    store = memory()
    table = new_table(store)
    for number in range(150):
        table.append(rows(number))
    counting = CountingStore(store)
    view = behind(table, counting).context.view
    options = parse_stream_options({"startingVersion": 1, "maxFilesPerTrigger": 1}, "UTC")
    source = StreamSource(view, options, view.head.version)
    counting.reset()

    start, batches_run = None, 0
    while (end := source.next_offset(start, limited=True)) != start:
        assert len(source.batch(start, end)) == 1
        start, batches_run = end, batches_run + 1

    assert batches_run == 150
    entries = Counter(key for _, key in counting.requests if key != entry_key(151))
    # Once to read the headers, and once to plan the change feed.
    assert set(entries.values()) <= {1, 2}
    assert counting.rounds < 150 + 1 + 2 * 15


def test_a_stream_moves_on_over_many_versions_without_rows(table: tablefmt.Table) -> None:
    """STR-2: the offset moves with an empty batch, so that it does not expire."""
    source = load(table, startingVersion=4)
    end = source.next_offset(None, limited=True)
    store = table.context.store
    extend(store, handle(store), SKIPPED_MAX - 1)
    assert source.next_offset(end, limited=True) is end
    extend(store, handle(store), 1)

    moved = source.next_offset(end, limited=True)

    assert moved.position == Position(5 + SKIPPED_MAX)
    assert source.batch(end, moved) == []
    assert source.next_offset(moved, limited=True) is moved


def test_a_stream_that_looked_through_what_expired_has_missed_nothing(
    table: tablefmt.Table,
) -> None:
    """STR-2, STR-5: offsets move past the expired entries.

    A new start from the old one is an error.
    """
    store = table.context.store
    source = load(table, startingVersion=4)
    end = source.next_offset(None, limited=True)
    extend(store, handle(store), 3)
    assert source.next_offset(end, limited=True) is end
    raise_horizon(store, 6)

    moved = source.next_offset(end, limited=True)

    assert moved.position == Position(9)
    assert source.batch(end, moved) == []
    assert load(table).next_offset(moved, limited=True) is moved
    with pytest.raises(ChangesExpiredError):
        load(table).next_offset(end, limited=True)


def test_a_stream_moves_on_after_an_hour_of_versions_without_rows() -> None:
    """STR-2: offsets that stay where they are grow old."""
    clock = Clock()
    table = new_table(memory(), clock=clock)
    table.append(rows(1))
    source = load(table, startingVersion=1)
    end = source.next_offset(None, limited=True)
    for number in range(2):
        table.alter.set_properties({"user.number": str(number)})
        clock.forward(3_599)
        assert source.next_offset(end, limited=True) is end
    clock.forward(2)
    table.alter.set_properties({"user.number": "2"})

    moved = source.next_offset(end, limited=True)

    assert moved.position == Position(5)
    assert source.batch(end, moved) == []


def test_a_stream_begins_where_its_options_say(table: tablefmt.Table) -> None:
    """STR-1: versions and times are inclusive, and the offset of the first batch keeps it."""
    times = table.context.view.timeline.timestamps

    def begins(**options: Any) -> Position:
        return load(table, **options).next_offset(None, limited=True).began

    assert begins() == Position(4, 0, True)
    assert begins(startingVersion=0) == begins(startingVersion="earliest") == Position(0)
    assert begins(startingVersion=" 3 ") == Position(3)
    assert begins(startingVersion="LATEST") == Position(5)
    assert begins(startingTimestamp=show_time(times[2])) == Position(2)
    assert begins(startingTimestamp=show_time(times[2] + 1)) == Position(3)
    raise_horizon(table.context.store, 2)
    assert begins(startingVersion="earliest") == Position(3)
    latest = load(table, startingVersion="latest")
    end = latest.next_offset(None, limited=True)
    table.append(rows(7))
    # Rows after the first, empty batch are not lost with the query.
    following = load(table, startingVersion="latest").next_offset(end, limited=True)
    assert read(latest, end, following) == Counter({(6, "insert", (7, "a")): 1})


def test_a_stream_begins_where_a_table_does_that_is_in_the_place_of_another() -> None:
    """STR-3, INC-1: versions 0 and 1 are the other table's, 2 makes this one."""
    clock, store = Clock(), memory()
    new_table(store, clock=clock)
    drop_at(store, CommitOptions(), environment=clock.environment())
    clock.forward(1)
    made = new_table(store, clock=clock)
    stored = made.context.view.entries_after(1)[-1].entry
    when = show_time(stored.timestamp)
    assert stored.version == 2 == made.context.view.timeline.oldest
    begins: list[dict[str, Any]] = [{"startingVersion": "2"}, {"startingTimestamp": when}]
    begins.append({"startingVersion": "earliest"})
    for asked in begins:
        assert [read for _, read in batches(made, **asked)] == [Counter()]
    made.append(rows(4))
    for asked in begins:
        found = [read for _, read in batches(made, readChangeFeed="true", **asked)]
        assert found == [Counter({(3, "insert", (4, "a")): 1})]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"startingVersion": 5}, VersionNotFoundError, "version 5 is outside"),
        ({"startingVersion": -1}, VersionNotFoundError, "version -1 is outside"),
        ({"startingTimestamp": "1999-01-01"}, VersionNotFoundError, "time 1999"),
        ({"startingTimestamp": "2999-01-01"}, VersionNotFoundError, "time 2999"),
    ],
)
def test_a_beginning_outside_the_history_is_an_error(
    table: tablefmt.Table, options: dict[str, Any], error: type, words: str
) -> None:
    """STR-1: bounds in the future too."""
    with pytest.raises(error, match=words):
        load(table, **options).next_offset(None, limited=True)


def test_offsets_that_do_not_fit_the_log_are_errors(table: tablefmt.Table) -> None:
    """STR-5: no version is skipped without an error."""
    store = table.context.store
    snapshot = load(table, maxFilesPerTrigger=2)
    middle = snapshot.next_offset(None, limited=True)
    end = load(table).next_offset(None, limited=True)
    parted = load(table, startingVersion=3, maxFilesPerTrigger=1).next_offset(None, limited=True)
    for changed, error, words in (
        (replace(end, table="other"), TableReplacedError, "has read table other"),
        (replace(end, entry="0" * 64), TableReplacedError, "entry 4 is not the one"),
        (replace(end, position=Position(9)), LogGapError, "has version 8 but not version 5"),
        (replace(middle, position=Position(4, 9, True)), InvalidRangeError, "9 files of version 4"),
        (
            replace(end, position=Position(3, 2), entry=digest_of(store, 3)),
            InvalidRangeError,
            "2 files of version 3, which has 2",
        ),
        (
            replace(end, position=Position(0, 1), entry=digest_of(store, 0)),
            InvalidRangeError,
            "1 files of version 0, which has 0",
        ),
    ):
        with pytest.raises(error, match=words):
            load(table).next_offset(changed, limited=True)
    with pytest.raises(InvalidRangeError, match="reads whole versions"):
        load(table, readChangeFeed="true").next_offset(parted, limited=True)
    for start, ends, words in (
        (None, replace(middle, position=Position(4, 6, True)), "6 files of version 4, which has 5"),
        (None, replace(parted, position=Position(3, 3)), "3 files of version 3, which has 2"),
        (None, replace(parted, position=Position(4, 2), entry=end.entry), "version 4, which has 1"),
    ):
        with pytest.raises(InvalidRangeError, match=words):
            load(table).batch(start, ends)
    nothing = Position(0, 1)
    none = replace(parted, position=nothing, began=Position(0), entry=digest_of(store, 0))
    with pytest.raises(InvalidRangeError, match="1 files of version 0, which has 0"):
        load(table).batch(None, none)
    with pytest.raises(InvalidRangeError, match="before it begins"):
        load(table).batch(end, parted)
    raise_horizon(store, 4)
    # The rest of the snapshot at version 4 is kept. The changes of version 3 have expired.
    assert load(table).next_offset(middle, limited=True).position == Position(6)
    with pytest.raises(ChangesExpiredError) as expired:
        load(table).next_offset(parted, limited=True)
    assert expired.value.earliest_version == 5
    raise_horizon(store, 5)
    with pytest.raises(ChangesExpiredError):
        load(table).next_offset(middle, limited=True)


def test_the_end_of_a_batch_is_of_the_same_log_as_its_start(table: tablefmt.Table) -> None:
    """STR-5: a log that was put back and went another way fits the start, and not the end."""
    start = load(table, startingVersion=3, maxFilesPerTrigger=2).next_offset(None, limited=True)
    end = load(table).next_offset(start, limited=True)
    assert (start.position, end.position) == (Position(4), Position(5))
    for changed, words in (
        (replace(end, entry="0" * 64), "entry 4 is not the one"),
        (replace(end, table="other"), "has read table other"),
    ):
        for begins in (start, None):
            with pytest.raises(TableReplacedError, match=words):
                load(table).batch(begins, changed)
    source = load(table)
    assert source.next_offset(start, limited=True) == end
    with pytest.raises(TableReplacedError, match="entry 4 is not the one"):
        load(table).batch(start, replace(end, entry="0" * 64))


def test_an_offset_has_the_entry_of_its_own_version_if_the_head_moves(
    table: tablefmt.Table,
) -> None:
    """STR-2: views are shared in a process, and other threads take new entries in at any time."""
    view, store = handle(table.context.store).context.view, table.context.store

    class Moving:
        """A view whose head moves at every access."""

        @property
        def head(self) -> Any:
            head = view.head
            table.append(rows(9))
            view.refresh()
            return head

        def __getattr__(self, name: str) -> Any:
            return getattr(view, name)

    source = StreamSource(view, parse_stream_options({}, "UTC"), 4)
    moving: Any = Moving()
    source.view = source.files.view = moving

    for end in (source.end_of_log(), source.next_offset(None, limited=True)):
        assert end.entry == digest_of(store, end.position.known)


def test_a_log_that_lost_its_end_or_belongs_to_another_table_stops_a_stream(
    table: tablefmt.Table,
) -> None:
    """STR-5: a stream that runs notices too."""
    store = table.context.store
    running = load(table)
    end = running.next_offset(None, limited=True)
    tablefmt.drop(table.uri)
    with pytest.raises((TableReplacedError, TableNotFoundError)):
        running.next_offset(end, limited=True)
    anew = new_table(store)
    anew.append(rows(1))
    with pytest.raises(TableReplacedError, match="is at this location now"):
        load(anew).next_offset(end, limited=True)


@pytest.mark.parametrize("put_back", [True, False])
def test_a_shorter_log_in_the_place_of_the_one_that_was_read_stops_a_stream_that_waits(
    table: tablefmt.Table, put_back: bool
) -> None:
    """STR-5: a stream that waits for the next entry would wait until the log is as long again."""
    store = table.context.store
    source = load(table)
    end = source.next_offset(None, limited=True)
    now = 0.0
    start = source.view.freshness.clock()
    source.view.freshness.clock = lambda: start + now
    bodies = [store.get(entry_key(version)) for version in range(3)]
    for version in range(5):
        store.delete(entry_key(version))
    if put_back:
        for version, body in enumerate(bodies):
            store.put(entry_key(version), body)
    assert source.next_offset(end, limited=True) is end
    now = 5.0
    with pytest.raises(TableReplacedError, match="version 4, the newest known here"):
        source.next_offset(end, limited=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "12",
        "[]",
        "{}",
        '{"format":1}',
        '{"format":"1"}',
        '{"format":1,"table":"t","version":-1,"files":0,"snapshot":false,"entry":null,"began":0,'
        '"beganWithSnapshot":false}',
        '{"format":1,"table":"t","version":2,"files":true,"snapshot":false,"entry":"e","began":0,'
        '"beganWithSnapshot":false}',
        '{"format":1,"table":"t","version":2,"files":0,"snapshot":false,"entry":null,"began":0,'
        '"beganWithSnapshot":false}',
        '{"format":1,"table":"t","version":2,"files":0,"snapshot":true,"entry":"e","began":0,'
        '"beganWithSnapshot":true}',
        '{"reservoirVersion":3,"index":-1,"sourceVersion":1}',
        "[" * 200_000,
    ],
    ids=lambda text: text[:60],
)
def test_text_that_is_no_offset_is_refused(text: str) -> None:
    """STR-2: a checkpoint of another source, or a damaged one."""
    with pytest.raises(InvalidRangeError, match="tablefmt did not write"):
        StreamOffset.from_json(text)


def test_an_offset_of_a_later_release_is_refused() -> None:
    """STR-2: the number of its format decides, for any other content."""
    with pytest.raises(UnsupportedFeatureError, match="later release"):
        StreamOffset.from_json('{"format":2,"place":[]}')


def test_only_columns_stop_a_stream_and_only_once_all_before_was_read() -> None:
    """STR-5: nullability, comments, defaults and properties do not; a commit's own rows wait."""
    table = tablefmt.create(f"memory://stream-{next(_numbers)}", "id BIGINT NOT NULL, v STRING")
    source = load(table, startingVersion=0)
    table.append({"id": [1], "v": ["a"]})
    table.alter.set_properties({"user.owner": "me"})
    table.append({"id": [2], "v": ["b"]})
    table.append(pa.table({"id": [3], "v": ["c"], "w": [1]}), merge_schema=True)
    table.append({"id": [4], "v": ["d"], "w": [2]})

    end = source.next_offset(None, limited=True)

    assert end.position == Position(4)
    with pytest.raises(SchemaMismatchError, match="version 4 changed the columns") as stopped:
        source.next_offset(end, limited=True)
    assert stopped.value.columns == ["w"]
    again = load(table)
    rest = again.next_offset(end, limited=True)
    assert read(again, end, rest) == Counter(
        {(4, "insert", (3, "c", 1)): 1, (5, "insert", (4, "d", 2)): 1}
    )
    table.alter.rename_column("w", "x")
    with pytest.raises(SchemaMismatchError) as renamed:
        again.next_offset(rest, limited=True)
    assert renamed.value.columns == ["w"]


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_what_a_commit_is_to_a_stream_goes_by_rows_and_not_by_files(mode: str) -> None:
    """STR-3: a rewrite carries rows over, which are no news; what took none is an append."""
    table = new_table(memory(), deleteMode=mode)
    table.overwrite(rows(1, 2, 3))
    table.delete("id = 1")
    merge = table.merge(rows(3, 4), "t.id = s.id").when_not_matched_insert_all()
    merge.execute()
    table.truncate()
    table.append(rows(5))
    options: Any = {"startingVersion": 0, "maxFilesPerTrigger": 1}

    found: Counter[Any] = sum(
        (got for _, got in batches(table, **options, ignoreDeletes="true")), Counter()
    )

    assert sorted((version, row[0]) for version, _, row in found) == [
        (1, 1), (1, 2), (1, 3), (3, 4), (5, 5)
    ]  # fmt: skip
    for change in (
        lambda: table.update({"p": "'z'"}, "id = 5"),
        lambda: table.overwrite(rows(6)),
        lambda: table.restore(version=1),
    ):
        change()
        told = load(table, ignoreDeletes="true", startingVersion=table.version)
        with pytest.raises(UnsupportedFeatureError, match=f"version {table.version} "):
            told.next_offset(None, limited=True)
        passed = load(table, skipChangeCommits="true", startingVersion=table.version)
        assert passed.next_offset(None, limited=True).position == Position(table.version)


def test_a_field_of_a_struct_that_came_back_stops_a_stream_at_its_version() -> None:
    """STR-5: the error names the cause, and all earlier rows are read first."""
    table = tablefmt.create(
        f"memory://stream-{next(_numbers)}", "id BIGINT, s STRUCT<a: BIGINT, b: BIGINT>"
    )
    for number in (1, 2):
        table.append({"id": [number], "s": [{"a": 1, "b": 2}]})
    table.alter.drop_column("s.b")
    table.append({"id": [4], "s": [{"a": 1}]})
    table.restore(version=2)
    table.append({"id": [6], "s": [{"a": 1, "b": 2}]})

    stopped = load(table, startingVersion=0)
    before = stopped.next_offset(None, limited=True)

    assert [change.version for change in stopped.batch(None, before)] == [1, 2]
    with pytest.raises(UnsupportedFeatureError, match="In version 4 or the version before"):
        stopped.next_offset(before, limited=True)
    after = load(table, startingVersion=6)
    end = after.next_offset(None, limited=True)
    assert [change.version for change in after.batch(None, end)] == [6]


def test_rows_that_no_longer_fit_their_columns_stop_a_stream() -> None:
    """STR-5: a restore made a type narrow again; who is past it goes on."""
    table = tablefmt.create(f"memory://stream-{next(_numbers)}", "id INT")
    table.append({"id": [1]})
    table.alter.widen_column("id", "BIGINT")
    table.append({"id": [1 << 40]})
    table.restore(version=1)
    table.append({"id": [2]})

    stopped = load(table, startingVersion=0)
    before = stopped.next_offset(None, limited=True)
    assert read(stopped, None, before) == Counter({(1, "insert", (1,)): 1})
    with pytest.raises(
        SchemaMismatchError, match="version 3 or the version before, a column had a different type"
    ):
        stopped.next_offset(before, limited=True)
    source = load(table, startingVersion=5)
    end = source.next_offset(None, limited=True)
    assert read(source, None, end) == Counter({(5, "insert", (2,)): 1})


def test_the_name_of_a_tag_is_no_start_of_a_stream() -> None:
    """TAG-1: the error says what to give instead."""
    with pytest.raises(InvalidRangeError, match="takes no tag: give the tag's version"):
        parse_stream_options({"startingVersion": "2026-Q3"}, "UTC")
