"""The pace of a group: how long a record usually waits until the group commits it.

A group that commits every half hour is well for half an hour. A group that commits a second after
each record, and gets a record every ten minutes, is not well after a minute. So the pace is not the
time between commits: it is the time from the first record that was there to read, or from the
commit before it if that is later, to the next commit.

The same holds for transactions of producers: the pace is the time for which they usually hold the
last stable offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from coordinator_state.insight.lag import UNKNOWN, Bools, Int64s, LogHistories

USUAL: Final = 0.9
"""So much of the waits are at most the usual one. A pace that varies is no stop."""
ENOUGH: Final = 3
"""Waits after which a pace is known: the first commits of a group are often quicker than usual."""
REST_DAYS: Final = 2
"""Days on which a key rested at the same time, before it is usual."""
LEAST_REST_MS: Final = 30 * 60_000
LATE_MS: Final = 30 * 60_000
_LATE_SHARE: Final = 10
"""A job may be so late: a tenth of its rest, and half an hour at most."""
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces:
    """The pace of each key, in ms; `UNKNOWN` without a wait.

    Attributes:
        usual_commit_ms: the usual wait for a commit, at whatever offset.
        commit_waits: the number of waits that show it.
        usual_move_ms: the usual wait for a commit with another offset.
        move_waits: the number of waits that show it.
        longest_move_ms: the longest of these waits.
    """

    usual_commit_ms: Int64s
    commit_waits: Int64s
    usual_move_ms: Int64s
    move_waits: Int64s
    longest_move_ms: Int64s


class Commits(NamedTuple):
    """Commits in the order of keys and record offsets.

    Attributes:
        key: the number of each commit's key.
        log: the number of its log.
        committed_offset: its offset.
        committed_at_ms: its time since the epoch.
    """

    key: Int64s
    log: Int64s
    committed_offset: Int64s
    committed_at_ms: Int64s


def paces(logs: LogHistories, commits: Commits, count: int) -> Paces:
    """Return the pace of each of `count` keys; `logs` has the samples of their logs."""
    key, _, committed_offset, _ = commits
    waits = _waits(logs, commits)
    has_moved = np.ones(key.size, np.bool_)
    has_moved[1:] = (key[1:] != key[:-1]) | (committed_offset[1:] != committed_offset[:-1])
    moves = _waits(logs, Commits(*(column[has_moved] for column in commits)))
    return Paces(
        usual_commit_ms=usual_ms(waits.key, waits.lengths_ms, count),
        commit_waits=np.bincount(waits.key, minlength=count),
        usual_move_ms=usual_ms(moves.key, moves.lengths_ms, count),
        move_waits=np.bincount(moves.key, minlength=count),
        longest_move_ms=usual_ms(moves.key, moves.lengths_ms, count, share=1),
    )


class _Waits(NamedTuple):
    """The key of each wait, and its begin and end since the epoch."""

    key: Int64s
    began_ms: Int64s
    ended_ms: Int64s

    @property
    def lengths_ms(self) -> Int64s:
        lengths_ms: Int64s = np.maximum(self.ended_ms - self.began_ms, 1)
        return lengths_ms


def rests_until_ms(logs: LogHistories, commits: Commits, count: int, now_ms: int) -> Int64s:
    """Return the end of the rest of each of `count` keys, `UNKNOWN` for one that should commit now.

    A key rests if a record waited as long for its commit, at the same time, on each of the last
    `REST_DAYS` days: a job of the night reads it, or its consumers are stopped at night. The rest
    ends at the time of day at which these commits came. A tenth of it later, or `LATE_MS`, the key
    is late. `logs` has the samples of their logs, and times are since the epoch.
    """
    waits = _waits(logs, commits)
    # A longer wait is no rest of a day, and a shorter one may be an interval of sampled history.
    is_rest = (waits.lengths_ms >= LEAST_REST_MS) & (waits.lengths_ms < _DAY_MS)
    waits = _Waits(*(column[is_rest] for column in waits))
    last_commit_ms = np.zeros(count, np.int64)
    last_commit_ms[commits.key] = commits.committed_at_ms
    late_ms = np.minimum(waits.lengths_ms // _LATE_SHARE, LATE_MS)
    is_as_long = waits.lengths_ms + late_ms >= now_ms - last_commit_ms[waits.key]
    until_ms, days = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for day in range(1, REST_DAYS + 1):
        ended_ms = waits.ended_ms + late_ms + day * _DAY_MS
        is_then = (waits.began_ms + day * _DAY_MS <= now_ms) & (now_ms < ended_ms) & is_as_long
        days[np.unique(waits.key[is_then])] += 1
        np.maximum.at(until_ms, waits.key[is_then], ended_ms[is_then])
    return np.where(days == REST_DAYS, until_ms, UNKNOWN)


def _waits(logs: LogHistories, commits: Commits) -> _Waits:
    """Return the waits of all keys.

    Before the first sample of a log, nobody knows since when a record was there to read. So only
    waits since then count, and the last one.
    """
    key, log, committed_offset, committed_at_ms = commits
    before = np.flatnonzero(key[1:] == key[:-1])
    is_last = np.append(np.diff(key[before]) != 0, True)[: before.size]
    key, log = key[before], log[before]
    began_ms = committed_at_ms[before]
    is_known = is_last | (logs.is_known[log] & (began_ms >= logs.sampled_since_ms(log)))
    # The samples are of the present topic.
    is_known &= began_ms >= logs.recreated_at_ms[log]
    # A record that was there before the commit is older than it.
    began_ms = np.maximum(began_ms, logs.produced_at_ms(log, committed_offset[before]))
    ended_ms = committed_at_ms[before + 1]
    # Without a record that was there to read, a commit of the same offset says nothing.
    is_known &= (ended_ms > began_ms) | (committed_offset[before + 1] != committed_offset[before])
    return _Waits(key[is_known], began_ms[is_known], ended_ms[is_known])


def usual_ms(key: Int64s, waits_ms: Int64s, count: int, share: float = USUAL) -> Int64s:
    """Return the wait of each key that a share of its waits do not exceed, `UNKNOWN` without one.

    >>> usual_ms(np.array([0, 0, 2]), np.array([5, 7, 1]), 3).tolist()
    [7, -1, 1]
    """
    order = np.lexsort((waits_ms, key))
    waits = np.bincount(key, minlength=count)
    first = np.cumsum(waits) - waits
    places = first + np.ceil(share * waits).astype(np.int64) - 1
    usual = np.full(count, UNKNOWN)
    has_waits = waits > 0
    usual[has_waits] = waits_ms[order][places[has_waits]]
    return usual


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """How long open transactions hold the last stable offset of each log.

    Attributes:
        usual_ms: the usual time; `UNKNOWN` if no hold has begun and ended.
        holds: the number of holds that show it.
        is_frequent: whether most samples before the last hold are within one, or there are none.
    """

    usual_ms: Int64s
    holds: Int64s
    is_frequent: Bools


def stable_holds(logs: LogHistories) -> Holds:
    """Return the holds of each log.

    A hold begins with the first sample of a last stable offset below the log end, and ends with the
    first sample of another one. If the first sample shows it, its beginning is unknown.
    """
    samples = logs.samples
    if (is_unknown := samples.last_stable_offset == UNKNOWN).any():
        samples = samples.only(~is_unknown)
    log, stable_offset = samples.log, samples.last_stable_offset
    is_held = stable_offset < samples.log_end_offset
    is_first = np.ones(len(samples), np.bool_)
    is_first[1:] = log[1:] != log[:-1]
    is_begin = is_first.copy()
    is_begin[1:] |= (stable_offset[1:] != stable_offset[:-1]) | (is_held[1:] != is_held[:-1])
    begins = np.flatnonzero(is_begin)
    begin, end = begins[:-1], begins[1:]
    is_known = is_held[begin] & ~is_first[begin] & (log[begin] == log[end])
    begin, end = begin[is_known], end[is_known]
    times = samples.sampled_at_ms
    # The last hold says nothing of those before it.
    last_begin = np.zeros(logs.count, np.int64)
    last_begin[log[begins]] = begins
    is_before = np.arange(len(samples)) < last_begin[log]
    held = np.bincount(log[is_held & is_before], minlength=logs.count)
    return Holds(
        usual_ms=usual_ms(log[begin], times[end] - times[begin], logs.count),
        holds=np.bincount(log[begin], minlength=logs.count),
        is_frequent=2 * held >= np.bincount(log[is_before], minlength=logs.count),
    )
