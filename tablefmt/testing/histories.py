"""Random histories of transactions that run at once, and the serial orders that explain them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Rows = TypeVar("Rows")


def interleaved(
    rng: random.Random, count: int, *, at_once: int | None = None, eager: float = 0.6
) -> Iterator[tuple[int, bool]]:
    """The order in which `count` transactions begin and commit; each does both.

    Args:
        rng: decides.
        count: how many; they have the numbers from 0 on.
        at_once: so many run at one time, at most.
        eager: how likely it is that the next event is a beginning, where both are possible.

    Yields:
        A number, and True where it begins.
    """
    waiting, running = list(range(count)), list[int]()
    while waiting or running:
        room = at_once is None or len(running) < at_once
        if waiting and (not running or (room and rng.random() < eager)):
            running.append(waiting.pop())
            yield running[-1], True
        else:
            yield running.pop(rng.randrange(len(running))), False


def serial_order(
    rows: Rows,
    steps: Sequence[Callable[[Rows], Rows | None]],
    is_end: Callable[[Rows], bool] = lambda rows: True,
) -> tuple[int, ...] | None:
    """An order of the steps that explains what they did; None if there is none.

    Args:
        rows: what is there before all of them.
        steps: each gives the rows after it, or None where it would not have done what it did.
        is_end: whether these rows may be there after all of them.

    Returns:
        The numbers of the steps in that order. The order in which they are given is tried first.
    """

    def search(rows: Rows, left: tuple[int, ...]) -> tuple[int, ...] | None:
        if not left:
            return () if is_end(rows) else None
        for at, number in enumerate(left):
            after = steps[number](rows)
            if after is None:
                continue
            rest = search(after, (*left[:at], *left[at + 1 :]))
            if rest is not None:
                return (number, *rest)
        return None

    return search(rows, tuple(range(len(steps))))
