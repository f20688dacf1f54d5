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
from coordinator_state.log.commit_sampling import HistoryResolution

USUAL: Final = 0.9
"""So much of the waits are at most the usual one. A pace that varies is no stop."""
_MEDIAN: Final = 0.5
_ALIKE: Final = 0.8
_ALIKE_SHARE: Final = 4
"""Moves are alike if so much of them differ from their median by a quarter of it at most."""
ENOUGH: Final = 3
"""Waits after which a pace is known: the first commits of a group are often quicker than usual."""
RESTS: Final = 2
"""Rests after which the next one is due: as long after them, or at the same time of the day."""
MANY_RESTS: Final = 4
"""Rests after which they are usual at any time."""
LEAST_REST_MS: Final = 30 * 60_000
_LATE_MS: Final = 30 * 60_000
_LATE_SHARE: Final = 4
"""A key may be late by a quarter of its rest, and half an hour at most."""
_TURN_SHARE: Final = 4
TIME_BITS: Final = 42
"""A number and a time are one integer, so that both are sorted and searched at once."""
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
REST_WINDOWS_MS: Final = (_HOUR_MS, 6 * _HOUR_MS, _DAY_MS, 3 * _DAY_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces:
    """The pace of each key, in ms; `UNKNOWN` without a wait.

    Attributes:
        usual_commit_ms: the usual wait for a commit, at whatever offset.
        commit_waits: the number of waits that show it.
        usual_move_ms: the usual wait for a commit with another offset.
        move_waits: the number of waits that show it.
        longest_move_ms: the longest of these waits.
        usual_move_records: the median difference between an offset and the next other one;
            `UNKNOWN` unless most differences, and the last one, are like it.
    """

    usual_commit_ms: Int64s
    commit_waits: Int64s
    usual_move_ms: Int64s
    move_waits: Int64s
    longest_move_ms: Int64s
    usual_move_records: Int64s


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
    waits = waits_of(logs, commits)
    moved_commits = moved(commits)
    moves = waits_of(logs, moved_commits)
    return Paces(
        usual_commit_ms=usual_ms(waits.key, waits.lengths_ms, count),
        commit_waits=np.bincount(waits.key, minlength=count),
        usual_move_ms=usual_ms(moves.key, moves.lengths_ms, count),
        move_waits=np.bincount(moves.key, minlength=count),
        longest_move_ms=usual_ms(moves.key, moves.lengths_ms, count, share=1),
        usual_move_records=_usual_move_records(moved_commits, count),
    )


def _usual_move_records(commits: Commits, count: int) -> Int64s:
    """Return the median of the moves of each key, if they are alike.

    >>> key, zeros = np.array([0, 0, 0, 1, 1, 1, 2]), np.zeros(7, np.int64)
    >>> offsets = np.array([0, 90, 190, 0, 100, 110, 7])
    >>> _usual_move_records(Commits(key, zeros, offsets, zeros), 3).tolist()
    [90, -1, -1]
    """
    is_next = commits.key[1:] == commits.key[:-1]
    key, records = commits.key[1:][is_next], np.diff(commits.committed_offset)[is_next]
    median = usual_ms(key, records, count, share=_MEDIAN)
    is_alike = _ALIKE_SHARE * np.abs(records - median[key]) <= median[key]
    alike = np.bincount(key[is_alike], minlength=count)
    are_alike = alike >= _ALIKE * np.bincount(key, minlength=count)
    # Whoever commits by time moves less as soon as producers write less.
    is_last_alike = np.zeros(count, np.bool_)
    is_last_alike[key] = is_alike
    return np.where(are_alike & is_last_alike, median, UNKNOWN)


def moved(commits: Commits) -> Commits:
    """Return the first commit of each key, and those with another offset than the one before."""
    key, _, committed_offset, _ = commits
    has_moved = np.ones(key.size, np.bool_)
    has_moved[1:] = (key[1:] != key[:-1]) | (committed_offset[1:] != committed_offset[:-1])
    return Commits(*(column[has_moved] for column in commits))


class Waits(NamedTuple):
    """The key of each wait for a commit, and its begin and end since the epoch."""

    key: Int64s
    began_ms: Int64s
    ended_ms: Int64s

    @property
    def lengths_ms(self) -> Int64s:
        lengths_ms: Int64s = np.maximum(self.ended_ms - self.began_ms, 1)
        return lengths_ms


class Rests(NamedTuple):
    """How long keys may go without a commit, in ms since their last one; `UNKNOWN` without rests.

    A key may be late by a quarter of its rest, or half an hour.

    Attributes:
        usual_ms: at any time: four rests that are as long took an eighth of the last hours or
            days, or eight a sixteenth, and so on. A job runs often, or a client reads its
            partitions in turn.
        due_ms: after this commit: two rests that took a quarter, or three that took a sixth, began
            as long after each other as the silence after them. A job runs each half hour. Or a
            record waited as long for its commit, at this time of day, on each of the last days.
            A job of the night reads it, or the consumers are stopped at night.
        only_ms: after this commit, if the key has rested once: for half of the time since its first
            commit at least, and between two runs that are as long as each other. Nobody knows
            whether it rests again.
    """

    usual_ms: Int64s
    due_ms: Int64s
    only_ms: Int64s


def rests(
    logs: LogHistories, commits: Commits, count: int, now_ms: int, resolution: HistoryResolution
) -> Rests:
    """Return the rests of each of `count` keys; `logs` has the samples of their logs.

    The rests of moves are those of `moved` commits.
    """
    waits = known_waits(logs, commits, now_ms, resolution)
    lengths_ms = waits.lengths_ms
    first_ms, last_ms = first_and_last_ms(commits, count)
    usual_ms, due_ms, only_ms = (np.full(count, UNKNOWN) for _ in Rests._fields)
    for window_ms in REST_WINDOWS_MS:
        # The window ends with the last commit, so the present silence does not change the result.
        since_ms = np.maximum(first_ms, last_ms - window_ms)
        is_since = waits.began_ms >= since_ms[waits.key]
        key, began_ms, lengths = (
            column[is_since] for column in (waits.key, waits.began_ms, lengths_ms)
        )
        usual, due = _usual_lengths(key, began_ms, lengths, last_ms, since_ms)
        usual_ms, due_ms = np.maximum(usual_ms, usual), np.maximum(due_ms, due)
        is_whole = (since_ms == first_ms)[key]
        key, began_ms, lengths = (column[is_whole] for column in (key, began_ms, lengths))
        only_rests_ms = _only_rests(key, began_ms, lengths, first_ms, last_ms)
        only_ms = np.maximum(only_ms, only_rests_ms)
    usual_ms, due_ms, only_ms = (
        np.where(rest_ms == UNKNOWN, UNKNOWN, rest_ms + late_ms(rest_ms))
        for rest_ms in (usual_ms, due_ms, only_ms)
    )
    until_ms = _daily_until_ms(waits, lengths_ms, last_ms, now_ms)
    daily_ms = np.where(until_ms == UNKNOWN, UNKNOWN, until_ms - last_ms)
    return Rests(usual_ms, np.maximum(due_ms, daily_ms), only_ms)


def known_waits(
    logs: LogHistories, commits: Commits, now_ms: int, resolution: HistoryResolution
) -> Waits:
    """Return the waits of all keys that no interval of the history's resolution explains.

    Of commits that were old when `run` read them, the history has only some.
    """
    waits = waits_of(logs, commits)
    for step in resolution.steps:
        interval_ms = resolution.interval_ms(step.age_ms)
        is_known = waits.began_ms >= now_ms - step.age_ms
        is_known |= waits.lengths_ms >= 2 * interval_ms
        waits = Waits(*(column[is_known] for column in waits))
    return waits


def first_and_last_ms(commits: Commits, count: int) -> tuple[Int64s, Int64s]:
    """Return the times of the first and of the last commit of each key."""
    first_ms, last_ms = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(first_ms, commits.key, commits.committed_at_ms)
    last_ms[commits.key] = commits.committed_at_ms
    return first_ms, last_ms


def late_ms(rests_ms: Int64s) -> Int64s:
    """Return by how much keys may be late after their rests."""
    late_ms: Int64s = np.minimum(rests_ms // _LATE_SHARE, _LATE_MS)
    return late_ms


def _usual_lengths(
    key: Int64s, began_ms: Int64s, lengths_ms: Int64s, last_ms: Int64s, since_ms: Int64s
) -> tuple[Int64s, Int64s]:
    """Return the greatest lengths of each key whose equal or longer ones are usual, or are due.

    The product of their number and of the time that they took is half of the time between
    `since_ms` and the last commit at least. `MANY_RESTS` are usual, `RESTS` are due if the
    present silence began as long after the last of them as they began after each other.

    >>> began_ms, lengths_ms = np.array([5, 35, 10, 35]), np.array([25, 25, 25, 25])
    >>> last_ms, since_ms = np.array([65, 65]), np.array([0, 0])
    >>> _usual_lengths(np.array([0, 0, 1, 1]), began_ms, lengths_ms, last_ms, since_ms)
    (array([-1, -1]), array([25, 25]))
    >>> _usual_lengths(np.array([0, 0, 1, 1]), began_ms, lengths_ms, last_ms + 20, since_ms)
    (array([-1, -1]), array([-1, -1]))
    """
    order = np.lexsort((-lengths_ms, key))
    key, began_ms, lengths_ms = key[order], began_ms[order], lengths_ms[order]
    first = np.searchsorted(key, np.arange(last_ms.size))[key]
    number = 1 + np.arange(key.size) - first
    have_share = 2 * number**2 * lengths_ms >= (last_ms - since_ms)[key]
    usual_ms, due_ms = np.full(last_ms.size, UNKNOWN), np.full(last_ms.size, UNKNOWN)
    are_usual = have_share & (number >= MANY_RESTS)
    np.maximum.at(usual_ms, key[are_usual], lengths_ms[are_usual])
    for count in range(RESTS, MANY_RESTS):
        rows = np.flatnonzero(have_share & (number == count))
        begins_ms = np.sort(np.stack([began_ms[rows - n] for n in range(count)]), axis=0)
        between_ms = (begins_ms[-1] - begins_ms[0]) // (count - 1)
        since_last_ms = last_ms[key[rows]] - begins_ms[-1]
        rows = rows[np.abs(since_last_ms - between_ms) <= between_ms // _LATE_SHARE]
        np.maximum.at(due_ms, key[rows], lengths_ms[rows])
    return usual_ms, due_ms


def _only_rests(
    key: Int64s, began_ms: Int64s, lengths_ms: Int64s, first_ms: Int64s, last_ms: Int64s
) -> Int64s:
    """Return the longest wait of each key if it may be its first rest, see `Rests.only_ms`.

    >>> key, began_ms, lengths_ms = np.array([0, 1]), np.array([5, 5]), np.array([25, 25])
    >>> first_ms, last_ms = np.array([0, 0]), np.array([36, 50])
    >>> _only_rests(key, began_ms, lengths_ms, first_ms, last_ms).tolist()
    [25, -1]
    """
    order = np.lexsort((lengths_ms, key))
    key, began_ms, lengths_ms = key[order], began_ms[order], lengths_ms[order]
    longest = np.flatnonzero(np.append(key[1:] != key[:-1], True)[: key.size])
    key, began_ms, lengths_ms = key[longest], began_ms[longest], lengths_ms[longest]
    ran_ms = began_ms - first_ms[key]
    ran_again_ms = last_ms[key] - began_ms - lengths_ms
    is_rest = 2 * lengths_ms >= (last_ms - first_ms)[key]
    is_rest &= np.abs(ran_again_ms - ran_ms) <= ran_ms // _LATE_SHARE
    only_ms = np.full(first_ms.size, UNKNOWN)
    only_ms[key[is_rest]] = lengths_ms[is_rest]
    return only_ms


def _daily_until_ms(waits: Waits, lengths_ms: Int64s, last_ms: Int64s, now_ms: int) -> Int64s:
    """Return when each key is late for the commit that ends its rest of each day, or `UNKNOWN`."""
    # A longer wait is no rest of a day.
    is_rest = (lengths_ms >= LEAST_REST_MS) & (lengths_ms < _DAY_MS)
    key, began_ms, ended_ms = (column[is_rest] for column in waits)
    ended_ms = ended_ms + late_ms(lengths_ms[is_rest])
    is_as_long = ended_ms - began_ms >= now_ms - last_ms[key]
    until_ms, days = np.full(last_ms.size, UNKNOWN), np.zeros(last_ms.size, np.int64)
    for day_ms in range(_DAY_MS, (RESTS + 1) * _DAY_MS, _DAY_MS):
        is_then = is_as_long & (began_ms + day_ms <= now_ms) & (now_ms < ended_ms + day_ms)
        days[np.unique(key[is_then])] += 1
        np.maximum.at(until_ms, key[is_then], ended_ms[is_then] + day_ms)
    return np.where(days == RESTS, until_ms, UNKNOWN)


def rests_in_turn_ms(
    logs: LogHistories,
    commits: Commits,
    reader_of_key: Int64s,
    reader: Int64s,
    since_ms: Int64s,
) -> Int64s:
    """Return how long the keys of each reader have waited until it went on to read them.

    Those waits count that have ended after a time, and were longer than the reader was without a
    move of any key, if a quarter of its keys had one: it reads its keys in turn. `UNKNOWN` without
    any.

    Args:
        logs: the samples of the logs.
        commits: the commits of all keys of the readers.
        reader_of_key: the number of the reader of each key, by the number of the key.
        reader: numbers of readers.
        since_ms: a time for each of them, since the epoch.
    """
    commits = moved(commits)
    order = np.lexsort((commits.committed_at_ms, reader_of_key[commits.key]))
    readers, times_ms = reader_of_key[commits.key[order]], commits.committed_at_ms[order]
    is_next = readers[1:] == readers[:-1]
    count = 1 + int(reader.max(initial=0))
    without_move_ms = np.zeros(count, np.int64)
    np.maximum.at(without_move_ms, readers[1:][is_next], np.diff(times_ms)[is_next])
    waits = waits_of(logs, commits)
    lengths_ms, readers = waits.lengths_ms, reader_of_key[waits.key]
    is_in_turn = lengths_ms > 2 * without_move_ms[readers]
    # A single partition that was away for a while is no turn.
    keys = np.bincount(reader_of_key[np.unique(commits.key)], minlength=count)
    waited = np.bincount(reader_of_key[np.unique(waits.key[is_in_turn])], minlength=count)
    is_in_turn &= (_TURN_SHARE * waited >= keys)[readers]
    readers, lengths_ms, ended_ms = (
        column[is_in_turn] for column in (readers, lengths_ms, waits.ended_ms)
    )
    order = np.lexsort((ended_ms, readers))
    places = (readers[order] << TIME_BITS) + ended_ms[order]
    first = np.searchsorted(places, (reader << TIME_BITS) + since_ms, side="right")
    past = np.searchsorted(places, (reader + 1) << TIME_BITS)
    # The longest wait from each one to the last of its reader; the greater bits keep them apart.
    keyed = ((count - readers[order]) << TIME_BITS) + lengths_ms[order]
    longest_ms = np.maximum.accumulate(keyed[::-1])[::-1] & ((1 << TIME_BITS) - 1)
    longest_ms = np.append(longest_ms, UNKNOWN)
    return np.where(first < past, longest_ms[first], UNKNOWN)


def waits_of(logs: LogHistories, commits: Commits) -> Waits:
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
    return Waits(key[is_known], began_ms[is_known], ended_ms[is_known])


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
        began_by_ms: the time of the first sample of the last hold; `UNKNOWN` without a sample.
    """

    usual_ms: Int64s
    holds: Int64s
    is_frequent: Bools
    began_by_ms: Int64s


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
    # The last hold says nothing of those before it, and neither does a log without records.
    last_begin = np.zeros(logs.count, np.int64)
    last_begin[log[begins]] = begins
    is_before = np.arange(len(samples)) < last_begin[log]
    is_before &= samples.log_start_offset < samples.log_end_offset
    began_by_ms = np.full(logs.count, UNKNOWN)
    began_by_ms[log[begins]] = times[begins]
    held = np.bincount(log[is_held & is_before], minlength=logs.count)
    return Holds(
        usual_ms=usual_ms(log[begin], times[end] - times[begin], logs.count),
        holds=np.bincount(log[begin], minlength=logs.count),
        is_frequent=2 * held >= np.bincount(log[is_before], minlength=logs.count),
        began_by_ms=began_by_ms,
    )
