"""The exploration has teeth: protocols known to be wrong are caught, and soon.

The first ones are whole protocols that published systems have used; the others are the real one
with one rule taken out.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tablefmt.commit.commit_protocol import (
    AlreadyApplied,
    Committed,
    Expired,
    Found,
    Get,
    Judged,
    Missing,
    NotCommitted,
    Put,
    Rejected,
    Unknown,
    Unreadable,
    resolve_found,
    step,
)
from tablefmt.store.object_store import Exists, NoAnswer, Refused, Written
from tablefmt.testing.schedules import Exploration, explore, explore_states, replay
from tablefmt.testing.simulated_commit import (
    Entry,
    Fault,
    PutEntry,
    ReadLog,
    Scenario,
    WriterPlan,
    protocol_writer,
)

SOON = 20
TRIES = 4


def entry_above(transaction, below):
    return Entry(transaction, below.version + 1, below.transaction, below.version)


def naive(plan, head, outcomes):
    """Exists: another writer won. Timeout: not applied, so probe the head and try there."""
    (transaction,) = plan.transactions
    entry = entry_above(transaction, head)
    for _ in range(TRIES):
        reply = yield PutEntry(entry)
        if isinstance(reply, Written):
            outcomes[transaction] = Committed(entry.version)
            return
        log = yield ReadLog(0, whole=True)
        if isinstance(log, tuple):
            entry = entry_above(transaction, log[-1])
    outcomes[transaction] = Rejected("too many tries")


def leaves_undecided(plan, head, outcomes):
    """Reads back by nonce, but takes "not found" after a timeout for "never applied"."""
    (transaction,) = plan.transactions
    entry = entry_above(transaction, head)
    for _ in range(TRIES):
        reply = yield PutEntry(entry)
        if not isinstance(reply, Written):
            reply = yield ReadLog(entry.version)
        if isinstance(reply, Written) or (
            isinstance(reply, tuple) and reply[0].transaction == transaction
        ):
            outcomes[transaction] = Committed(entry.version)
            return
        log = yield ReadLog(0, whole=True)
        if isinstance(log, tuple):
            entry = entry_above(transaction, log[-1])
    outcomes[transaction] = Unknown(entry.version, "too many tries")


def takes_own_entry_for_a_concurrent_commit(attempt, reply):
    if isinstance(reply, Found):
        return step(replace(attempt, transaction="nobody"), reply)
    return step(attempt, reply)


def moves_on_after_no_answer(attempt, reply):
    if isinstance(reply, NoAnswer) and not attempt.reading:
        version = attempt.version + 1
        return replace(attempt, version=version), Put(version)
    return step(attempt, reply)


def moves_on_after_missing(attempt, reply):
    if isinstance(reply, Missing):
        version = attempt.version + 1
        return replace(attempt, version=version, reading=False, maybe_sent=False), Put(version)
    if isinstance(reply, NoAnswer) and not attempt.reading:
        return replace(attempt, reading=True), Get(attempt.version)
    return step(attempt, reply)


def deadline_means_rejected(attempt, reply):
    return step(replace(attempt, maybe_sent=False) if reply == Expired() else attempt, reply)


def refusal_means_rejected(attempt, reply):
    if isinstance(reply, Refused):
        return attempt, Rejected(reply.reason)
    return step(attempt, reply)


def exists_means_not_sent(attempt, reply):
    following, decision = step(attempt, reply)
    if isinstance(reply, Exists):
        following = replace(following, maybe_sent=attempt.maybe_sent)
    return following, decision


def checks_the_last_concurrent_commit_only(attempt, reply):
    if isinstance(reply, Found):
        passed = tuple(
            replace(concurrent, verdict=None) for concurrent in reply.concurrent_commits[:-1]
        )
        reply = Found((*passed, reply.concurrent_commits[-1]))
    return step(attempt, reply)


def ignores_verdicts(attempt, reply):
    if isinstance(reply, Found):
        reply = Found(
            tuple(replace(concurrent, verdict=None) for concurrent in reply.concurrent_commits)
        )
    return step(attempt, reply)


def trusts_entries_of_a_probe(attempt, reply):
    """Judge only the concurrent commits that it lost a race to."""
    if isinstance(reply, Found) and not attempt.maybe_sent:
        reply = Found(
            tuple(replace(concurrent, verdict=None) for concurrent in reply.concurrent_commits)
        )
    return step(attempt, reply)


def unreadable_means_rejected(attempt, reply):
    if isinstance(reply, Unreadable):
        return attempt, Rejected(reply.reason)
    return step(attempt, reply)


def passes_over_what_it_cannot_read(attempt, reply):
    if isinstance(reply, Unreadable):
        reply = Found((Judged(attempt.version, "somebody"),))
    return step(attempt, reply)


def unknown_without_a_cause(attempt, reply):
    if isinstance(reply, Found):
        return attempt, Unknown(attempt.version, "lost the race")
    return step(attempt, reply)


def bytes_of_the_first_version(plan, head, outcomes):
    """Keeps the hash of the entry it first lay on."""
    return _edited(
        protocol_writer(plan, head, outcomes),
        lambda entry, _: entry._replace(previous=head.transaction),
    )


def other_bytes_when_repeated(plan, head, outcomes):
    """Make another entry, with a newer clock, for every request."""
    return _edited(
        protocol_writer(plan, head, outcomes), lambda entry, count: entry._replace(base=-count)
    )


def _edited(writer, edit):
    count, request = 0, next(writer)
    while True:
        count += 1
        if isinstance(request, PutEntry):
            request = PutEntry(edit(request.entry, count))
        reply = yield request
        try:
            request = writer.send(reply)
        except StopIteration:
            return


def explored(scenario):
    """Explore by schedules, which find the same violation first as states do."""
    found = explore(scenario)
    assert explore_states(scenario).violation == found.violation
    return found


def inserts(names, **changes):
    writers = tuple(WriterPlan(transactions=(name,), **changes) for name in names)
    return Scenario(name="inserts", writers=writers, faults=1)


def two_inserts(**changes):
    return inserts("ab", **changes)


def first_violation(**changes):
    """Explore one writer, then two: how many schedules it takes, and what is found."""
    schedules = 0
    for names in ("a", "ab"):
        found = explored(inserts(names, **changes))
        schedules += found.schedules
        if found.violation:
            return schedules, found.violation
    raise AssertionError(f"not caught in {schedules} schedules")


KNOWN_BAD = [
    {"run": naive},
    {"run": leaves_undecided},
    {"step": takes_own_entry_for_a_concurrent_commit},
]


@pytest.mark.parametrize("bad", KNOWN_BAD)
def test_a_known_bad_protocol_is_caught_soon(bad):
    """CMT-3, CMT-4: all of them put one transaction into the log twice."""
    schedules, violation = first_violation(**bad)

    assert "CMT-3" in violation.message
    assert schedules <= SOON


@pytest.mark.parametrize("bad", KNOWN_BAD)
def test_a_known_bad_protocol_is_caught_among_two_writers(bad):
    """CMT-3, CMT-4: one fault is enough."""
    assert "CMT-3" in explored(two_inserts(**bad)).violation.message


@pytest.mark.parametrize(
    "mutant",
    [
        moves_on_after_no_answer,
        moves_on_after_missing,
        refusal_means_rejected,
        unknown_without_a_cause,
    ],
)
def test_the_protocol_without_one_of_its_rules_is_caught_soon(mutant):
    """CMT-1, CMT-3, CMT-7: each rule is needed."""
    scenario = replace(two_inserts(step=mutant), faults=2)

    assert explore(scenario, limit=SOON).violation is not None


@pytest.mark.parametrize(
    ("mutant", "fault"),
    [(deadline_means_rejected, Fault.LOST_ANSWER), (exists_means_not_sent, Fault.SDK_RETRY)],
)
def test_an_early_rejection_is_caught_soon(mutant, fault):
    """CMT-8: rejected, and in the log all the same."""
    scenario = replace(two_inserts(step=mutant), kinds=(fault,), deadlines=1)
    found = explore(scenario, limit=SOON)

    assert found.violation is not None
    assert "Rejected" in found.violation.message


@pytest.mark.parametrize("writer", [bytes_of_the_first_version, other_bytes_when_repeated])
def test_entries_made_wrongly_are_caught_soon(writer):
    """CMT-2, CMT-5: fixed bytes at one version, a new link at the next."""
    assert explore(two_inserts(run=writer), limit=SOON).violation is not None


@pytest.mark.parametrize("mutant", [checks_the_last_concurrent_commit_only, ignores_verdicts])
def test_an_entry_above_a_conflict_is_caught(mutant):
    """CMT-6: two concurrent commits are read at once, and the first is the conflict."""
    late = WriterPlan(transactions=("late",), conflicts_with=frozenset({"m"}), step=mutant)
    scenario = Scenario(
        name="one conflict", writers=(WriterPlan(transactions=("m", "i")), late), faults=0
    )
    found = explored(scenario)

    assert found.violation is not None
    assert "CMT-6" in found.violation.message


def test_an_entry_above_an_unreadable_one_is_caught():
    """CMT-5, CMT-12."""
    plan = WriterPlan(
        transactions=("a",),
        cannot_read=frozenset({"new"}),
        step=passes_over_what_it_cannot_read,
    )
    found = explored(Scenario(name="newer", writers=(plan, WriterPlan(transactions=("new",)))))

    assert found.violation is not None
    assert "CMT-5" in found.violation.message


def test_damage_after_a_lost_answer_may_be_of_ones_own_entry():
    """CMT-1, CMT-12: rejected, and in the log all the same."""
    scenario = two_inserts(cannot_read=frozenset("ab"), step=unreadable_means_rejected)
    found = explored(replace(scenario, kinds=(Fault.LOST_ANSWER,)))

    assert found.violation is not None
    assert "Rejected" in found.violation.message


def test_a_look_is_judged_like_a_lost_race():
    """CMT-6: this holds at the beginning, and after the second lost race."""
    others = WriterPlan(transactions=("i1", "i2", "m"))
    for looks in (True, False):
        late = WriterPlan(
            transactions=("late",),
            conflicts_with=frozenset({"m"}),
            step=trusts_entries_of_a_probe,
            looks=looks,
        )
        found = explored(Scenario(name="one conflict", writers=(others, late)))

        assert found.violation is not None
        assert "CMT-6" in found.violation.message


def absence_is_proof(transaction, version, reply):
    if isinstance(reply, Missing):
        return NotCommitted(version or 0)
    return resolve_found(transaction, version, reply)


def first_version_is_enough(transaction, version, reply):
    if version is not None:
        return resolve_found(transaction, version, reply)
    above_genesis = reply.concurrent_commits[1:]
    return resolve_found(transaction, 1, Found(above_genesis) if above_genesis else Missing())


@pytest.mark.parametrize("lookup", [absence_is_proof, first_version_is_enough])
def test_a_lookup_that_says_no_too_early_is_caught(lookup):
    """CMT-9: the put is still on its way when the answer is given."""
    writers = (WriterPlan(transactions=("a",)), WriterPlan(transactions=("b",)))
    scenario = Scenario(
        name="late put",
        writers=writers,
        faults=1,
        kinds=(Fault.LATE_PUT,),
        deadlines=1,
        resolve=lookup,
    )
    found = explored(scenario)

    assert found.violation is not None
    assert "CMT-9" in found.violation.message or "looked up as" in found.violation.message


def test_a_violation_is_replayed_from_its_choices():
    """The same choices make the same story, and it ends with the same violation."""
    scenario = two_inserts(run=naive)
    violation = explore(scenario).violation
    story = replay(scenario, violation.choices)

    assert story[-1] == f"VIOLATION {violation.message}"
    assert story == replay(scenario, violation.choices)
    assert any("no answer" in line or "Exists" in line for line in story)


@pytest.mark.parametrize(
    ("names", "count", "orders"), [("ab", 2, 6), ("ab", 3, 20), ("abc", 2, 90)]
)
def test_every_interleaving_is_run_exactly_once(names, count, orders):
    """(n * k)! / k! ** n orders of n writers with k requests each."""
    seen = []

    def reader(plan, head, outcomes):
        (name,) = plan.transactions
        if name == "a":
            seen.append("")
        for _ in range(count):
            yield ReadLog(0)
            seen[-1] += name
        outcomes[name] = AlreadyApplied(0)

    writers = tuple(
        WriterPlan(transactions=(name,), same_application=frozenset({"genesis"}), run=reader)
        for name in names
    )
    found = explore(Scenario(name="readers", writers=writers))

    assert found == Exploration(
        schedules=orders, complete=True, endings=frozenset({"AlreadyApplied"})
    )
    assert (len(seen), len(set(seen))) == (orders, orders)
    assert {len(order) for order in seen} == {len(names) * count}


@pytest.mark.slow
@pytest.mark.parametrize("faults", [1, 2])
def test_by_states_and_one_by_one_schedules_are_as_many_and_end_alike(faults):
    """Exploring each state once finds the same as all schedules of `test_all_schedules`."""
    twins = two_inserts(same_application=frozenset({"a", "b"}))
    for scenario in (replace(two_inserts(), deadlines=1), twins):
        scenario = replace(scenario, faults=faults)
        found = explore_states(scenario)

        assert found == explore(scenario)
        assert found.complete
