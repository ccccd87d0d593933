"""The store contract as a test class. Subclass it, define the fixture `store`, inherit the tests.

`store` must be a new empty store for every test. The import needs no test framework.
"""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from tablefmt.store.object_store import (
    Exists,
    InvalidKeyError,
    KeyNotFoundError,
    PutReply,
    Store,
    Written,
)
from tablefmt.store.store_wrappers import ForwardingStore

CREATORS = 32

GOOD_KEYS = (
    "_log/00000000000000000042.json",
    "data/a b/c+d&e=f;g,h.parquet",
    "data/p=%2F/x.parquet",
    "data/ünï/日本/😀.parquet",
    "data/'quoted' \"twice\"/#?.parquet",
    "data/..a/b../...",
    "data/tab\there",
    ".hidden",
)
BAD_KEYS = (
    "",
    "/",
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "./a",
    "../a",
    "a/./b",
    "a/../b",
    "a/..",
    "a\\b",
    "a\0b",
    "\ud800",
    "k" * 1025,
    "é" * 513,
)


class StoreContract:
    """The rules of spec/store.md that are visible from outside."""

    raced_keys = 200
    """Number of keys for which all creators race."""

    def test_one_of_many_creators_wins_and_its_body_stays(self, store: Store) -> None:
        """STO-3, STO-4: 32 concurrent creators race for each of `raced_keys` keys."""
        start = Barrier(CREATORS)

        def race(creator: int) -> list[PutReply]:
            replies = []
            for number in range(self.raced_keys):
                start.wait(timeout=120)
                replies.append(store.put_if_absent(f"_log/{number}", b"creator %d" % creator))
            return replies

        with ThreadPoolExecutor(CREATORS) as pool:
            replies = list(pool.map(race, range(CREATORS)))

        for number in range(self.raced_keys):
            of_key = [one[number] for one in replies]
            assert of_key.count(Written()) == 1
            assert of_key.count(Exists()) == CREATORS - 1
            assert store.get(f"_log/{number}") == b"creator %d" % of_key.index(Written())

    def test_an_empty_object_is_created_once(self, store: Store) -> None:
        """STO-3: an empty body is as conditional as any other."""
        assert store.put_if_absent("_log/0", b"") == Written()
        assert store.put_if_absent("_log/0", b"late") == Exists()
        assert store.put_if_absent("_log/0", b"") == Exists()
        assert store.get("_log/0") == b""
        assert store.size("_log/0") == 0

        assert store.put_if_absent("_log/1", b"early") == Written()
        assert store.put_if_absent("_log/1", b"") == Exists()
        assert store.get("_log/1") == b"early"

    def test_a_deleted_key_can_be_created_again(self, store: Store) -> None:
        """STO-4: the store does not remember deleted names."""
        store.put("_log/0", b"first")
        store.delete("_log/0")
        assert store.put_if_absent("_log/0", b"second") == Written()
        assert store.get("_log/0") == b"second"

    def test_put_replaces_whole_objects(self, store: Store) -> None:
        """STO-1, STO-7: every later read returns the new object."""
        store.put("_log/hint.json", b"a longer body")
        store.put("_log/hint.json", b"short")
        assert store.get("_log/hint.json") == b"short"
        store.put("_log/hint.json", b"")
        assert store.get("_log/hint.json") == b""
        assert [one.key for one in store.list_after("")] == ["_log/hint.json"]

    def test_what_is_absent_is_named(self, store: Store) -> None:
        """STO-8: reads of an absent key name the key."""
        store.put("data/here", b"x")
        reads = (
            lambda: store.get("data/gone"),
            lambda: store.get("nowhere/gone"),
            lambda: store.get_range("data/gone", 0, 1),
            lambda: store.get_range("data/gone", 0, 0),
            lambda: store.size("data/gone"),
        )
        for read in reads:
            error = _raised(read)
            assert isinstance(error, KeyNotFoundError)
            assert error.key.endswith("/gone")

    def test_get_many_keeps_the_order_and_marks_what_is_absent(self, store: Store) -> None:
        """STO-8: results keep the order of the keys, with None for absent keys."""
        keys = [f"data/{number}" for number in range(40)]
        for key in keys[::2]:
            store.put(key, key.encode())
        expected = [key.encode() if number % 2 == 0 else None for number, key in enumerate(keys)]

        assert store.get_many(keys) == expected
        assert store.get_many(keys[::-1]) == expected[::-1]
        assert store.get_many(["data/2", "data/2"]) == [b"data/2", b"data/2"]
        assert store.get_many([]) == []

    def test_ranges_are_clipped_at_the_end(self, store: Store) -> None:
        """STO-8: every range of a small object equals the slice."""
        body = bytes(range(7))
        store.put("data/x", body)
        for start in range(9):
            for length in (0, 1, 3, 7, 100):
                assert store.get_range("data/x", start, length) == body[start : start + length]
        store.put("data/empty", b"")
        assert store.get_range("data/empty", 0, 10) == b""
        for start, length in ((-1, 1), (0, -1)):
            assert isinstance(_raised(store.get_range, "data/x", start, length), InvalidKeyError)

    def test_many_ranges_keep_the_order_and_mark_what_is_absent(self, store: Store) -> None:
        """STO-8: each result equals that of a single range request."""
        body = bytes(range(7))
        store.put("data/x", body)
        store.put("data/a/empty", b"")
        ranges = [
            (key, start, length)
            for start in range(9)
            for length in (0, 1, 3, 100)
            for key in ("data/x", "data/gone", "data/a/empty", "nowhere/gone")
        ]
        bodies = {"data/x": body, "data/a/empty": b""}
        expected = [
            bodies[key][start : start + length] if key in bodies else None
            for key, start, length in ranges
        ]
        assert store.get_ranges(ranges) == expected
        assert store.get_ranges([]) == []
        for start, length in ((-1, 1), (0, -1)):
            refused = _raised(store.get_ranges, [("data/x", 0, 1), ("data/x", start, length)])
            assert isinstance(refused, InvalidKeyError)

    def test_list_after_is_exclusive_and_in_order_of_bytes(self, store: Store) -> None:
        """STO-9: for every key, between keys, and over directories and files with a common
        prefix.
        """
        keys = [
            *(f"_log/{number:020d}.json" for number in range(12)),
            "_log/checkpoints/1/a",
            "_log/checkpoints/1/b",
            "_log/checkpoints/10",
            "_log/checkpoints/1-2",
            "_log/checkpoints.old",
            "_log/hint.json",
            "_log/é",
            "_log/｡",
            "_log/😀",
            "_logs/0",
            "data/x",
        ]
        for key in keys:
            store.put(key, key.encode())
        in_order = sorted(keys, key=lambda key: key.encode())
        for prefix in ("", "_log/", "_log/checkpoints/", "_log/checkpoints/1", "_lo", "none/"):
            below = [key for key in in_order if key.startswith(prefix)]
            listed = list(store.list_after(prefix))
            assert [one.key for one in listed] == below
            assert [one.size for one in listed] == [len(key.encode()) for key in below]
            for after in (*in_order, "_log", "_log/00000000000000000003", "_log/z", "a", "zz"):
                expected = [key for key in below if key.encode() > after.encode()]
                assert [one.key for one in store.list_after(prefix, after)] == expected

    def test_a_listing_tells_the_time_of_the_last_write(self, store: Store) -> None:
        """STO-9: times are microseconds since 1970."""
        store.put("data/x", b"x")
        (one,) = store.list_after("data/")
        assert 1_700_000_000_000_000 < one.modified_us < 5_000_000_000_000_000

    def test_delete_removes_and_forgives_absence(self, store: Store) -> None:
        """STO-7: an absent key can be deleted."""
        store.put("data/x", b"x")
        store.delete("data/x")
        store.delete("data/x")
        store.delete("nowhere/x")
        assert list(store.list_after("")) == []
        assert isinstance(_raised(store.get, "data/x"), KeyNotFoundError)

    def test_many_are_deleted_at_once_and_the_rest_stays(self, store: Store) -> None:
        """STO-7: absent keys and missing folders are no failures."""
        keys = [f"data/{n % 3}/{n}" for n in range(12)]
        for key in [*keys, "data/1/kept", "data/é/&<x>"]:
            store.put(key, b"x")
        asked = [*keys, "data/1/absent", "nowhere/x", "data/é/&<x>"]
        assert store.delete_many(asked) == {}
        assert store.delete_many([]) == {}
        assert [one.key for one in store.list_after("")] == ["data/1/kept"]

    def test_an_output_appears_whole_at_the_end(self, store: Store) -> None:
        """STO-7: the object is invisible while it is written, also after the writer closed the
        stream.
        """
        part = bytes(range(256)) * 1024
        with store.open_output("data/t/big") as stream:
            for _ in range(8):
                assert stream.write(part) == len(part)
            assert stream.tell() == 8 * len(part)
            assert isinstance(_raised(store.get, "data/t/big"), KeyNotFoundError)
            stream.close()
        assert store.get("data/t/big") == part * 8
        with store.open_output("data/t/empty"):
            pass
        assert store.get("data/t/empty") == b""

    def test_an_output_that_fails_leaves_nothing(self, store: Store) -> None:
        """STO-7: the caller sees the block's own error, interrupts included."""
        for error in (ValueError("mine"), KeyboardInterrupt()):
            raised: BaseException | None = None
            try:
                with store.open_output("data/t/x") as stream:
                    stream.write(b"half")
                    raise error
            except BaseException as caught:
                raised = caught
            assert raised is error
        assert list(store.list_after("")) == []

    def test_odd_keys_come_back_as_they_went_in(self, store: Store) -> None:
        """STO-2: no key is escaped, decoded or case-folded."""
        for key in GOOD_KEYS:
            assert store.put_if_absent(key, key.encode()) == Written()
        assert {one.key for one in store.list_after("")} == set(GOOD_KEYS)
        assert store.get_many(GOOD_KEYS) == [key.encode() for key in GOOD_KEYS]
        for key in GOOD_KEYS:
            store.delete(key)
        assert list(store.list_after("")) == []

    def test_keys_outside_the_grammar_are_refused_by_every_verb(self, store: Store) -> None:
        """STO-2: every method refuses invalid keys."""
        for key in BAD_KEYS:
            verbs = (
                lambda key=key: store.put_if_absent(key, b"x"),
                lambda key=key: store.put(key, b"x"),
                lambda key=key: store.get(key),
                lambda key=key: store.get_many([key]),
                lambda key=key: store.get_range(key, 0, 1),
                lambda key=key: store.get_ranges([("data/x", 0, 1), (key, 0, 1)]),
                lambda key=key: store.size(key),
                lambda key=key: store.delete(key),
                lambda key=key: store.delete_many([key]),
                lambda key=key: store.sync([key]),
                lambda key=key: store.open_output(key).__enter__(),
            )
            for verb in verbs:
                assert isinstance(_raised(verb), InvalidKeyError), (key, verb)
        assert list(store.list_after("")) == []

    def test_a_pickled_store_finds_the_same_objects(self, store: Store) -> None:
        """STO-11: a pickled store reads the same objects."""
        store.put("data/x", b"x")
        again = pickle.loads(pickle.dumps(store))
        assert (again.uri, again.identity) == (store.uri, store.identity)
        assert again.unsafe_single_writer == store.unsafe_single_writer
        assert again.get("data/x") == b"x"

    def test_a_store_states_its_traits(self, store: Store) -> None:
        """Also through a wrapper, and after it was pickled."""
        traits = store.traits
        assert traits.path
        assert not traits.path.endswith("/")
        assert traits.path in store.uri
        assert traits.remote == bool(traits.bucket)
        assert not traits.on_disk or store.uri == traits.path
        assert not traits.imports
        again = pickle.loads(pickle.dumps(store))
        assert (again.traits, again.access()) == (traits, store.access())
        wrapped = ForwardingStore(store)
        assert (wrapped.traits, wrapped.access()) == (traits, store.access())
        assert store.folder("memory://elsewhere") is None

    def test_leftovers_of_hadoop_are_removed(self, store: Store) -> None:
        """ADD-5: removing a marker that is not there is fine, and removes no other object."""
        store.put("data/x", b"x")
        store.delete_folder_marker("data")
        store.delete_folder_marker("data/none/")
        assert [one.key for one in store.list_after("")] == ["data/x"]

    def test_arrow_reads_what_the_store_wrote(self, store: Store) -> None:
        """STO-10: two readers of one object are independent."""
        store.put("data/x", b"0123456789")
        store.sync(["data/x"])
        one, other = store.open_file("data/x"), store.open_file("data/x")
        assert (one is None) == (other is None) == store.traits.remote
        if one is None or other is None:
            return
        assert isinstance(_raised(store.open_file, "data/y"), KeyNotFoundError)
        with one, other:
            assert one.read(4) == b"0123"
            assert other.read(2) == b"01"
            assert one.read() == b"456789"
            assert one.size() == 10


def _raised(call: object, *arguments: object) -> BaseException | None:
    assert callable(call)
    try:
        call(*arguments)
    except Exception as error:
        return error
    return None
