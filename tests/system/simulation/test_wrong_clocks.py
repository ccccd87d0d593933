"""Ages, with clocks that jump both ways: many schedules of writers, expiries and vacuums."""

from __future__ import annotations

import pytest

from tablefmt.snapshot.head_freshness import ENTRY_SECONDS_MIN
from tablefmt.testing.simulated_retention import Rules, run

KNOWN_BAD: dict[str, tuple[Rules, str]] = {
    "ages by the log's times alone": (Rules(witness=False), "RET-9"),
    "no look at the head": (Rules(looks=False), "RET-9"),
    "only the clock that rises": (Rules(all_clocks=False), "RET-9"),
    "left-overs by the machine's clock": (Rules(store_now=False), "RET-6"),
    "a clock that is asked after the log is read": (Rules(clock_first=False), "RET-6"),
    "entries stay no longer than a head is believed": (
        Rules(entry_seconds=ENTRY_SECONDS_MIN / 120),
        "RET-9",
    ),
}


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_whatever_the_clocks_say() -> None:
    """RET-4, RET-6, RET-9, CMT-1."""
    worlds = [run(seed, Rules()) for seed in range(1500)]
    assert sum(len(world.acknowledged) for world in worlds) > 5_000
    assert sum(0 not in world.log or 1 not in world.log for world in worlds) > 300
    assert sum(len(world.rejected) for world in worlds) > 300


@pytest.mark.share(2)
@pytest.mark.parametrize("name", KNOWN_BAD)
def test_a_known_bad_rule_is_caught(name: str) -> None:
    """RET-4, RET-6, RET-9: the model has teeth."""
    rules, broken = KNOWN_BAD[name]
    with pytest.raises(AssertionError, match=broken):
        run_many(rules)


def run_many(rules: Rules) -> None:
    for seed in range(3000):
        run(seed, rules)


@pytest.mark.soak
def test_many_schedules(first_seed: int) -> None:
    """The same, for long."""
    for seed in range(first_seed, first_seed + 300_000):
        run(seed, Rules(), moves=120)
