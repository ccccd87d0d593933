"""Random histories of concurrent transactions, and the serial orders that explain them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Rows = TypeVar("Rows")


def interleaved(
    rng: random.Random, count: int, *, at_once: int | None = None, eager: float = 0.6
) -> Iterator[tuple[int, bool]]:
    """Yield the order in which `count` transactions begin and commit; each does both.

    Args:
        rng: source of randomness.
        count: number of transactions; they are numbered from 0.
        at_once: most transactions that run at one time.
        eager: probability that the next event is a beginning, if both are possible.

    Yields:
        A number, and True if the transaction begins.
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
    """Return an order of the steps that explains their results; None if there is none.

    Args:
        rows: the state before all steps.
        steps: functions from a state to the next, or to None if the step's result would differ.
        is_end: whether a state is a valid end state.

    Returns:
        The numbers of the steps in that order. The given order is tried first.
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
