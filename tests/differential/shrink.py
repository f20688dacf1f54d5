"""A smaller log that still makes a difference.

Events are left out, in ever smaller pieces. A broker starts once for fifty candidates: a log is
known by the seeds of its events, and so can be drawn again for the groups of any log partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.differential.random_round import LOG_PARTITIONS, RoundLog

Judge = Callable[[Mapping[int, RoundLog]], set[int]]
"""Which of some logs, by log partition, make a difference."""


def shrunk(log: RoundLog, makes_difference: Judge, on_step: Callable[[int], None]) -> RoundLog:
    """Leave out seeds until none can be left out; `on_step` is told how many are left."""
    while True:
        smaller = _first_that(list(_candidates(log)), makes_difference)
        if smaller is None:
            return log
        log = smaller
        on_step(len(log.seeds))


def _first_that(candidates: Sequence[RoundLog], makes_difference: Judge) -> RoundLog | None:
    """The smallest of the first fifty, or of the next, that make a difference."""
    for first in range(0, len(candidates), LOG_PARTITIONS):
        chunk = dict(enumerate(candidates[first : first + LOG_PARTITIONS]))
        different = makes_difference(chunk)
        if different:
            return min((chunk[p] for p in different), key=lambda log: len(log.seeds))
    return None


def _candidates(log: RoundLog) -> Iterator[RoundLog]:
    """The log without a half, a quarter and so on of its seeds, larger pieces first."""
    size = len(log.seeds) // 2
    while size:
        for start in range(0, len(log.seeds), size):
            rest = log.seeds[:start] + log.seeds[start + size :]
            yield RoundLog(seeds=rest, ends_refused=log.ends_refused)
        size //= 2
    if len(log.seeds) == 1:
        yield RoundLog(seeds=(), ends_refused=log.ends_refused)
