"""The commit protocol against every reply the store knows. No store, no clock, no mocks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.commit.commit_protocol import (
    BACKOFF_CAP_SECONDS,
    RACE_CAP_SECONDS,
    AlreadyApplied,
    Attempt,
    Committed,
    Conflicted,
    Expired,
    Found,
    Get,
    Judged,
    Missing,
    NotCommitted,
    Overtaken,
    Put,
    Rejected,
    Remaining,
    Unknown,
    Unreadable,
    Unresolvable,
    backoff_seconds,
    resolve_found,
    start,
    step,
    wait_seconds,
)
from tablefmt.conflict.verdict import Conflict
from tablefmt.errors import ConcurrentModificationException
from tablefmt.store.object_store import Exists, NoAnswer, Refused, Written

TIMEOUT = NoAnswer("timeout")


def stop(reason):
    """A conflict that is this one and no other."""
    return Conflict(
        error=ConcurrentModificationException,
        rule="CFL-1",
        reason=reason,
        winner_version=7,
        winner_operation="WRITE",
    )


STOP = stop("stop")


def theirs(*verdicts, first=7):
    """Entries of others from `first` on, with these verdicts."""
    return Found(tuple(Judged(first + i, f"their-{i}", v) for i, v in enumerate(verdicts)))


def run(*replies, probe=False):
    """Contest version 7 as "mine"; return every decision, the first request included."""
    attempt, decision = start("mine", 7, probe=probe)
    decisions = [decision]
    for reply in replies:
        attempt, decision = step(attempt, reply)  # type: ignore[assignment]
        decisions.append(decision)
    return decisions


def test_an_uncontested_commit_is_one_put():
    """CMT-2: no read and no listing before or after."""
    assert run(Written()) == [Put(7), Committed(7)]


def test_a_put_without_answer_is_sent_again_at_the_same_version():
    """CMT-3: the request is repeated without limit, with a wait before each."""
    assert run(*[TIMEOUT] * 50, Written()) == [Put(7), *[Put(7, backoff=True)] * 50, Committed(7)]


def test_an_own_entry_under_a_taken_key_is_a_commit():
    """CMT-4: the client library repeated a put whose answer was lost."""
    own = Found((Judged(7, "mine"),))

    assert run(Exists(), own) == [Put(7), Get(7), Committed(7)]


def test_an_own_entry_below_other_entries_is_a_commit_at_its_version():
    """CMT-4: our commit does not conflict with entries above it."""
    found = Found((Judged(7, "mine", STOP), Judged(8, "their-0", STOP)))

    assert run(TIMEOUT, Exists(), found)[-1] == Committed(7)


def test_what_cannot_be_judged_ends_it():
    """CMT-12: no entry of ours can be in the log, unless a put had no answer."""
    assert run(Unreadable("garbage"), probe=True) == [Get(7), Rejected("garbage")]
    assert run(Exists(), Unreadable("garbage"))[-1] == Rejected("garbage")
    assert run(Exists(), TIMEOUT, Missing(), Exists(), Unreadable("x"))[-1] == Rejected("x")
    for silent in ([TIMEOUT], [TIMEOUT, TIMEOUT], [Exists(), Missing(), TIMEOUT]):
        assert run(*silent, Exists(), Unreadable("garbage"))[-1] == Unknown(7, "garbage")
    lost = [TIMEOUT, Exists(), theirs(None), Exists()]
    assert run(*lost, Unreadable("garbage"))[-1] == Rejected("garbage")


def test_the_own_nonce_counts_before_any_verdict():
    """CMT-4: an entry that is in the log is committed, even above a conflict."""
    found = Found((Judged(7, "their-0", STOP), Judged(8, "mine")))

    assert run(Exists(), found)[-1] == Committed(8)


def test_a_lost_race_continues_above_the_last_concurrent_commit_read():
    """CMT-5: all may go below; the next version is contested afresh, without a wait."""
    assert run(Exists(), theirs(None, None, None), Written()) == [
        Put(7),
        Get(7),
        Put(10),
        Committed(10),
    ]


def test_the_attempt_after_a_lost_race_has_nothing_sent():
    """CMT-5, CMT-8: the version left behind is decided, so only the new one counts."""
    attempt, _ = start("mine", 7)
    for reply in (TIMEOUT, Exists(), theirs(None)):
        attempt, decision = step(attempt, reply)

    assert attempt == Attempt(transaction="mine", version=8, races=1, requests=3)
    assert decision == Put(8)


def test_after_the_second_lost_race_the_writer_waits_and_looks_first():
    """CMT-10: it rebases at once onto entries that the probe finds, and puts at a free version."""
    lost = [Exists(), theirs(None), Exists(), theirs(None, first=8)]

    assert run(*lost, Missing(), Written())[3:] == [
        Get(8),
        Get(9, backoff=True),
        Put(9),
        Committed(9),
    ]
    assert run(*lost, theirs(None, None, first=9), Written())[4:] == [
        Get(9, backoff=True),
        Put(11),
        Committed(11),
    ]


def test_a_look_comes_before_the_first_put_where_it_is_asked_for():
    """CMT-2: the probe counts as no lost race, even if it finds entries."""
    assert run(Missing(), Written(), probe=True) == [Get(7), Put(7), Committed(7)]
    assert run(theirs(None), Exists(), theirs(None, first=8), probe=True) == [
        Get(7),
        Put(8),
        Get(8),
        Put(9),
    ]


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (theirs(None, STOP), Conflicted(STOP)),
        (theirs(AlreadyApplied(7)), AlreadyApplied(7)),
        (Refused("denied"), Rejected("denied")),
        (Expired(), Rejected("the deadline passed")),
    ],
)
def test_a_look_can_end_a_transaction_of_which_nothing_was_sent(reply, outcome):
    """CMT-6, CMT-7, CMT-8: a conflict is found before the first put."""
    assert run(reply, probe=True)[-1] == outcome
    assert run(TIMEOUT, reply, probe=True)[-2:] == [Get(7, backoff=True), outcome]


def test_a_free_version_seen_after_a_put_was_sent_is_not_new():
    """CMT-3: the same "not found" means two things."""
    assert run(Missing(), TIMEOUT, probe=True)[-1] == Put(7, backoff=True)
    assert run(Missing(), Exists(), Missing(), probe=True)[-1] == Put(7, backoff=True)


@pytest.mark.parametrize(
    ("verdicts", "outcome"),
    [
        ([STOP], Conflicted(STOP)),
        ([AlreadyApplied(7)], AlreadyApplied(7)),
        ([None, STOP, AlreadyApplied(7)], Conflicted(STOP)),
        ([None, AlreadyApplied(8), STOP], AlreadyApplied(8)),
        ([stop("first"), stop("second")], Conflicted(stop("first"))),
        ([None, None, Overtaken(9)], Overtaken(9)),
    ],
)
def test_the_first_verdict_in_version_order_decides(verdicts, outcome):
    """CMT-6: concurrent commits read at once are judged one by one."""
    assert run(Exists(), theirs(*verdicts))[-1] == outcome


def test_a_conflict_after_an_unanswered_put_is_final():
    """CMT-6: another entry holds the version, so the put can never land."""
    assert run(TIMEOUT, Exists(), theirs(STOP))[-1] == Conflicted(STOP)


def test_a_read_without_answer_is_made_again():
    """CMT-4: the entry may be ours or not until it is read."""
    decisions = run(Exists(), TIMEOUT, TIMEOUT, theirs(None))

    assert decisions == [Put(7), Get(7), Get(7, backoff=True), Get(7, backoff=True), Put(8)]


def test_not_found_after_exists_sends_the_same_bytes_again():
    """CMT-3: "not found" proves nothing. The writer stays at the version."""
    decisions = run(Exists(), Missing(), Written())

    assert decisions == [Put(7), Get(7), Put(7, backoff=True), Committed(7)]


@pytest.mark.parametrize(
    ("before", "outcome"),
    [
        ([], Rejected("denied")),
        ([TIMEOUT], Unknown(7, "denied")),
        ([Exists()], Unknown(7, "denied")),
        ([Exists(), Missing()], Unknown(7, "denied")),
        ([TIMEOUT, Exists(), theirs(None)], Rejected("denied")),
        ([Exists(), theirs(None), TIMEOUT], Unknown(8, "denied")),
    ],
)
def test_a_refusal_rejects_only_what_was_never_sent(before, outcome):
    """CMT-7: an earlier put at the version may have been applied, or may still be."""
    assert run(*before, Refused("denied"))[-1] == outcome


@pytest.mark.parametrize(
    ("before", "outcome"),
    [
        ([], Rejected("the deadline passed")),
        ([TIMEOUT], Unknown(7, "the deadline passed")),
        ([Exists()], Unknown(7, "the deadline passed")),
        ([Exists(), Missing()], Unknown(7, "the deadline passed")),
        ([TIMEOUT, Exists(), theirs(None)], Rejected("the deadline passed")),
        ([Exists(), theirs(None), TIMEOUT], Unknown(8, "the deadline passed")),
    ],
)
def test_a_deadline_rejects_only_what_was_never_sent(before, outcome):
    """CMT-8: after Exists the entry may be ours, so it is unknown until it is read."""
    assert run(*before, Expired())[-1] == outcome


def test_a_deadline_is_no_request():
    """The count of requests is of those made."""
    attempt, _ = start("mine", 7)

    assert step(attempt, Expired())[0] == attempt


@given(
    st.lists(st.sampled_from(["none", "exists", "missing", "one", "two"]), min_size=1, max_size=30),
    st.booleans(),
)
def test_versions_rise_only_past_entries_read(kinds, look):
    """CMT-3, CMT-5: every version that is left was seen to be another's."""
    attempt, decision = start("mine", 7, probe=look)
    seen = set()
    backoffs = 0
    for kind in kinds:
        reply = {"none": TIMEOUT, "exists": Exists(), "missing": Missing()}.get(kind)
        if kind in ("one", "two"):
            reply = theirs(*[None] * (1 if kind == "one" else 2), first=attempt.version)
        if isinstance(decision, Put) == (kind in ("missing", "one", "two")):
            continue  # not a reply to this kind of request
        if isinstance(decision, Get) and kind == "exists":
            continue
        if isinstance(reply, Found):
            seen |= {concurrent.version for concurrent in reply.concurrent_commits}
            backoffs = 0
        elif kind == "none" or (kind == "missing" and attempt.maybe_sent):
            backoffs += 1

        attempt, decision = step(attempt, reply)  # type: ignore[arg-type, assignment]

        assert set(range(7, decision.version)) == seen
        assert (attempt.version, attempt.backoffs) == (decision.version, backoffs)
        assert attempt.reading == isinstance(decision, Get)


@pytest.mark.parametrize(
    "concurrent_commits",
    [(), (Judged(8, "a"),), (Judged(7, "a"), Judged(9, "b")), (Judged(6, "a"),)],
)
def test_a_read_with_a_gap_is_a_mistake_of_the_driver(concurrent_commits):
    """Judging with an entry missing could pass over a conflict."""
    attempt, _ = start("mine", 7)
    attempt, _ = step(attempt, Exists())

    with pytest.raises(AssertionError):
        step(attempt, Found(concurrent_commits))


@pytest.mark.parametrize("reading", [False, True])
def test_a_reply_to_another_request_is_a_mistake_of_the_driver(reading):
    """A put is not answered by an entry, nor a read by Written."""
    attempt = replace(start("mine", 7)[0], reading=reading)

    with pytest.raises(AssertionError):
        step(attempt, Written() if reading else Missing())


@pytest.mark.parametrize(
    ("version", "reply", "resolution"),
    [
        (7, Found((Judged(7, "mine"),)), Committed(7)),
        (7, Found((Judged(7, "mine"), Judged(8, "a"))), Committed(7)),
        (7, theirs(None), NotCommitted(7)),
        (7, theirs(None, None), NotCommitted(7)),
        (7, Missing(), Unknown(7, "the version is still free")),
        (7, TIMEOUT, Unknown(7, "timeout")),
        (7, Remaining((Judged(9, "a"), Judged(10, "mine"))), Committed(10)),
        (7, Remaining((Judged(9, "a"), Judged(10, "b"))), Unresolvable(9)),
        (None, Remaining((Judged(9, "a"),)), Unresolvable(9)),
        (None, Found((Judged(3, "a"), Judged(4, "mine"))), Committed(4)),
        (None, theirs(None, None, first=3), Unknown(5, "the contested version is not known")),
        (None, Missing(), Unknown(0, "the version is still free")),
        (None, TIMEOUT, Unknown(0, "timeout")),
    ],
)
def test_a_lookup_says_no_only_if_another_holds_the_version(version, reply, resolution):
    """CMT-9: a free version may still be taken by the put that is on its way."""
    assert resolve_found("mine", version, reply) == resolution


def test_waits_double_up_to_the_cap():
    """CMT-10: the longest possible waits, in seconds."""
    bounds = [backoff_seconds(number, 1.0) for number in range(1, 11)]

    assert bounds == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.0, 2.0]
    assert backoff_seconds(10**9, 1.0) == BACKOFF_CAP_SECONDS


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_a_wait_is_its_fraction_of_the_longest(number, fraction):
    """CMT-10: full jitter, from zero on."""
    assert backoff_seconds(number, fraction) == pytest.approx(
        fraction * backoff_seconds(number, 1.0)
    )
    assert backoff_seconds(number, 0.0) == 0.0


def test_waits_after_lost_races_double_up_to_a_cap_of_their_own():
    """CMT-10: the first lost race has no wait. Repeated requests have a count of their own."""
    lost = [Attempt(transaction="mine", version=9, races=n) for n in range(2, 9)]

    assert [wait_seconds(a, 1.0) for a in lost] == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.32]
    assert wait_seconds(replace(lost[-1], races=10**9), 0.5) == RACE_CAP_SECONDS / 2
    assert wait_seconds(replace(lost[-1], backoffs=1), 0.5) == backoff_seconds(1, 0.5)
