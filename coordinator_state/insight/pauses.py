"""Short rests of members that stay: the application pauses, and then catches up.

A pause and a record that is retried for ever look the same while they last. But a pause that was
seen before, without a change of the members, and after which the group read everything, may come
again. To believe in it only delays the next alarm by its length. So a short pause needs less
evidence than other rests (`coordinator_state.insight.pace.Rests`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from coordinator_state.insight.absence import READ_ALL_MS
from coordinator_state.insight.lag import UNKNOWN, Bools, Int64s, LogHistories
from coordinator_state.insight.pace import (
    REST_WINDOWS_MS,
    RESTS,
    TIME_BITS,
    Commits,
    Waits,
    first_and_last_ms,
    known_waits,
    late_ms,
)
from coordinator_state.log.commit_sampling import HistoryResolution

_LONGEST_MS: Final = 2 * 60_000
"""The longest usual pause; and the longest pause, by the number of pauses that are as long."""
_SHARE: Final = 40
"""A pause counts if pauses took a fortieth of the time, fewer if there are many."""


class Pauses(NamedTuple):
    """How long keys may pause, in ms since their last commit; `UNKNOWN` without pauses.

    Attributes:
        usual_ms: two pauses at least were as long, and each caught up; two minutes at most.
        only_ms: one pause was, or several longer ones. Nobody knows whether the key pauses again.
    """

    usual_ms: Int64s
    only_ms: Int64s


class MemberChanges(NamedTuple):
    """When members joined or left the groups of keys.

    Attributes:
        group_of_key: the number of the group of each key.
        group: the group of each change.
        changed_at_ms: the time of each change since the epoch.
    """

    group_of_key: Int64s
    group: Int64s
    changed_at_ms: Int64s

    def are_in(self, key: Int64s, began_ms: Int64s, ended_ms: Int64s) -> Bools:
        """Whether the members of each key changed after a begin, and not after an end."""
        changes = np.sort((self.group << TIME_BITS) + self.changed_at_ms)
        group = self.group_of_key[key] << TIME_BITS
        places = (np.searchsorted(changes, group + ms, "right") for ms in (began_ms, ended_ms))
        before, until = places
        are_in: Bools = before != until
        return are_in


def pauses(
    logs: LogHistories,
    commits: Commits,
    count: int,
    now_ms: int,
    resolution: HistoryResolution,
    changes: MemberChanges,
) -> Pauses:
    """Return the pauses of each of `count` keys; see `coordinator_state.insight.pace.rests`."""
    waits = known_waits(logs, commits, now_ms, resolution)
    is_pause = _are_followed_by_catch_up(logs, commits, waits) & ~changes.are_in(*waits)
    key, began_ms, lengths_ms = (
        column[is_pause] for column in (waits.key, waits.began_ms, waits.lengths_ms)
    )
    first_ms, last_ms = first_and_last_ms(commits, count)
    usual_ms, only_ms = np.full(count, UNKNOWN), np.full(count, UNKNOWN)
    for window_ms in REST_WINDOWS_MS:
        since_ms = np.maximum(first_ms, last_ms - window_ms)
        is_since = began_ms >= since_ms[key]
        keys, lengths = key[is_since], lengths_ms[is_since]
        for number in (1, RESTS, RESTS + 1):
            longest_ms = _nth_longest_ms(keys, lengths, number, count)
            is_usual = _SHARE * number**2 * longest_ms >= last_ms - since_ms
            # A longer one may be an outage, and the next outage may not end.
            is_only = (longest_ms > _LONGEST_MS) | (number == 1)
            for known_ms, is_known in ((only_ms, is_only), (usual_ms, ~is_only)):
                pause_ms = np.where(is_usual & is_known, longest_ms, UNKNOWN)
                np.maximum(known_ms, pause_ms, out=known_ms)
    usual_ms, only_ms = (
        np.where(ms == UNKNOWN, UNKNOWN, ms + late_ms(ms)) for ms in (usual_ms, only_ms)
    )
    return Pauses(usual_ms, only_ms)


def _nth_longest_ms(key: Int64s, lengths_ms: Int64s, number: int, count: int) -> Int64s:
    """Return the nth longest pause of each key, of those that n pauses show; or `UNKNOWN`.

    >>> key, lengths_ms = np.array([0, 0, 0, 1]), np.array([90_000, 70_000, 250_000, 80_000])
    >>> _nth_longest_ms(key, lengths_ms, 2, 2).tolist()
    [70000, -1]
    """
    is_short = lengths_ms <= number * _LONGEST_MS
    key, lengths_ms = key[is_short], lengths_ms[is_short]
    order = np.lexsort((-lengths_ms, key))
    key, lengths_ms = key[order], lengths_ms[order]
    first, past = (np.searchsorted(key, np.arange(count), side) for side in ("left", "right"))
    has_them = past - first >= number
    longest_ms = np.full(count, UNKNOWN)
    longest_ms[has_them] = lengths_ms[first[has_them] + number - 1]
    return longest_ms


def _are_followed_by_catch_up(logs: LogHistories, commits: Commits, waits: Waits) -> Bools:
    """Whether each key has read everything within the length of a wait after its end."""
    produced_at_ms = logs.produced_at_ms(commits.log, commits.committed_offset)
    # Without a later sample of the log end, no record is left.
    has_read_all = (produced_at_ms == UNKNOWN) | (
        produced_at_ms >= commits.committed_at_ms - READ_ALL_MS
    )
    caught_up = (commits.key << TIME_BITS) + commits.committed_at_ms
    caught_up = np.append(np.sort(caught_up[has_read_all]), np.iinfo(np.int64).max)
    ended = (waits.key << TIME_BITS) + waits.ended_ms
    is_followed: Bools = caught_up[np.searchsorted(caught_up, ended)] <= ended + waits.lengths_ms
    return is_followed
