"""Finds superseded commits: walks a log from its end and remembers the keys it has seen.

The keys are in a hash table with open addressing, with a compact copy of their bytes. There are
few keys and many scattered rows, so the copy stays in the processor's cache.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from coordinator_state.log.kernel.numbers import (
    Bytes,
    Integers,
    Mask,
    compiled,
    copy_bytes,
    inlined,
    int16,
    uint8,
    word,
)
from coordinator_state.log.log_rows import MOST_STEPS_BACK

_HASH: Final = 0
_KEY: Final = 1
"""The position of the key in the copies; the lowest bits are its length."""
_EPOCH: Final = 2
"""Commits with different epochs must not supersede each other."""
_NEXT_OFFSET: Final = 3
"""The committed offset of the key's next plain commit in the log; `_NO_OFFSET` if a tombstone or
transactional commit of the key comes before that commit."""
_NEXT_ROW: Final = 4
"""The row of that commit, if it is among the current rows."""
_INTERVAL: Final = 5
"""The first timestamp of the interval of that commit."""
_NEXT_INTERVAL: Final = 6
"""The first timestamp after the interval."""
_SLOT_COLUMNS: Final = 7
_LENGTH_BITS: Final = 20
_LENGTH_MASK: Final = (1 << _LENGTH_BITS) - 1
"""Large enough for a key of two strings of 32767 bytes each."""
_EMPTY: Final = -1
_LEAST_SLOTS: Final = 1024
_FNV_OFFSET_BASIS: Final = -3750763034362895579
_FNV_PRIME: Final = 1099511628211

_COUNT: Final = 3
_NO_ROW: Final = -1
_NO_OFFSET: Final = -(1 << 63)

KIND_OTHER: Final = 0
"""Rows without a role in compaction; kinds above `KIND_GROUP_RECORD` are treated alike."""
KIND_PLAIN_COMMIT: Final = 1
KIND_OTHER_OFFSET: Final = 2
"""A tombstone or a transactional commit."""
KIND_GROUP_RECORD: Final = 3

STRING_LENGTH_BYTES: Final = 2


class KeyedRows(NamedTuple):
    """Rows in log order, as columns.

    `positions` and `lengths` are those of the keys in `data`; a key begins with its group, as a
    string with an int16 length. `barriers` is the number of later places whose batch may contain
    commits of any key and records of any group. `zones` are those of `CommitSampling`, one after
    the other.
    """

    data: Bytes
    positions: Integers
    lengths: Integers
    kinds: Integers
    committed_offsets: Integers
    timestamps_ms: Integers
    barriers: Integers
    zones: Integers


State = tuple[Integers, Bytes, int, int, int]
"""The hash table, the copies of the keys, the end of the copies, the number of keys, and the number
of kept steps back between two commits."""


def no_keys() -> State:
    """Return the state at the end of a log, before the walk."""
    slots = np.full((_LEAST_SLOTS, _SLOT_COLUMNS), _EMPTY, dtype=np.int64)
    return slots, np.empty(64 * _LEAST_SLOTS, dtype=np.uint8), 0, 0, 0


@compiled
def mark_superseded(
    rows: KeyedRows, is_superseded: Mask, keys: State, groups: State
) -> tuple[State, State]:
    """Mark the plain commits that a later commit with the same key supersedes.

    These commits are kept:

    - both commits of a step back, where a smaller committed offset follows a larger one: they show
      who moved the offset back, and from where;
    - the commits before and after a tombstone or transactional commit of their key;
    - the first commit of each key in `rows`: it may be a step back from an earlier commit;
    - the last commit of each key in each interval of time: history is to be as that of a reader
      that was never behind;
    - one commit of each key before and one after each record of its group: the effect of that
      record may depend on whether a commit created the group;
    - one commit of each key before and one after each barrier: the batch there may contain a commit
      of the key, and the next one may be a step back from it.

    Only the last `MOST_STEPS_BACK` steps back are kept, so logs with many of them stay small.

    The walk goes from the last row to the first.

    Returns:
        The states of the commits' keys and of the groups with records before the first row. Pass
        them to the call for the earlier rows.
    """
    row = len(rows.positions) - 1
    while row >= 0:
        row, keys = _mark_rows(rows, row, is_superseded, keys, groups)
        if row < 0:
            break
        if rows.kinds[row] == KIND_GROUP_RECORD:
            position = rows.positions[row]
            length = int16(rows.data, position)
            groups = _count_record(groups, rows.data, position + STRING_LENGTH_BYTES, length)
            row -= 1
        else:
            keys = _with_more_room(keys, rows.lengths[row])
    _keep_firsts(keys[0], is_superseded)
    return keys, groups


@inlined
def _mark_rows(
    rows: KeyedRows, last: int, is_superseded: Mask, keys: State, groups: State
) -> tuple[int, State]:
    """Mark rows until a group record, or until there is no room for the key of a row.

    This loop never replaces an array: Numba's reference counting would dominate its run time.
    """
    slots, copies, copies_end, count, steps_back = keys
    row, has_records = last, groups[_COUNT] > 0
    while row >= 0:
        place = np.uint64(row)
        kind = rows.kinds[place]
        if kind == KIND_GROUP_RECORD:
            break
        if kind == KIND_OTHER or kind > KIND_GROUP_RECORD:
            row -= 1
            continue
        position, length = rows.positions[place], rows.lengths[place]
        key_hash = _hash(rows.data, position, length)
        slot = np.uint64(_find(slots, copies, key_hash, rows.data, position, length))
        is_known = slots[slot, _KEY] != _EMPTY
        if kind == KIND_OTHER_OFFSET:
            if is_known:
                slots[slot, _NEXT_OFFSET] = _NO_OFFSET
            row -= 1
            continue
        epoch = rows.barriers[place] << 32
        if has_records:
            group, group_length = position + STRING_LENGTH_BYTES, int16(rows.data, position)
            epoch += _records_of(groups, rows.data, group, group_length)
        committed_offset, timestamp_ms = rows.committed_offsets[place], rows.timestamps_ms[place]
        if is_known:
            is_step_back = committed_offset > slots[slot, _NEXT_OFFSET]
            is_kept_pair = is_step_back and steps_back < MOST_STEPS_BACK
            steps_back += int(is_kept_pair)
            is_of_interval = _is_of_interval(slots, int(slot), timestamp_ms)
            is_dispensable = is_of_interval and slots[slot, _EPOCH] == epoch
            is_superseded[place] = is_dispensable and not is_kept_pair
            if is_kept_pair or slots[slot, _EPOCH] >> 32 != rows.barriers[place]:
                _keep_next(slots, int(slot), is_superseded)
        else:
            if 2 * (count + 1) > len(slots) or copies_end + length > len(copies):
                break
            slots[slot, _HASH] = key_hash
            slots[slot, _KEY] = copies_end << _LENGTH_BITS | length
            copies_end = copy_bytes(rows.data, position, length, copies, copies_end)
            count += 1
        _begin_interval(slots, int(slot), timestamp_ms, rows.zones)
        slots[slot, _EPOCH] = epoch
        slots[slot, _NEXT_OFFSET] = committed_offset
        slots[slot, _NEXT_ROW] = row
        row -= 1
    return row, (slots, copies, copies_end, count, steps_back)


@inlined
def _is_of_interval(slots: Integers, slot: int, timestamp_ms: int) -> bool:
    """Whether a timestamp is in the interval of the key's next commit; not for a new key."""
    return bool(slots[slot, _INTERVAL] <= timestamp_ms < slots[slot, _NEXT_INTERVAL])


@inlined
def _begin_interval(slots: Integers, slot: int, timestamp_ms: int, zones: Integers) -> None:
    """Set the interval of a commit, which is in the first zone that begins at or before it."""
    if _is_of_interval(slots, slot, timestamp_ms):
        return
    zone = 0
    while timestamp_ms < zones[zone]:
        zone += 2
    interval_ms = zones[zone + 1]
    slots[slot, _INTERVAL] = timestamp_ms // interval_ms * interval_ms
    slots[slot, _NEXT_INTERVAL] = slots[slot, _INTERVAL] + interval_ms


@inlined
def _with_more_room(keys: State, length: int) -> State:
    """Return the same keys, with room for one more key of this length."""
    slots, copies, copies_end, count, steps_back = keys
    copies = _with_room(copies, copies_end, length)
    if 2 * (count + 1) > len(slots):
        slots = _doubled(slots)
    return slots, copies, copies_end, count, steps_back


@inlined
def _keep_firsts(slots: Integers, is_superseded: Mask) -> None:
    for slot in range(len(slots)):
        if slots[slot, _KEY] != _EMPTY:
            _keep_next(slots, slot, is_superseded)
            slots[slot, _NEXT_ROW] = _NO_ROW


@inlined
def _keep_next(slots: Integers, slot: int, is_superseded: Mask) -> None:
    if slots[slot, _NEXT_ROW] != _NO_ROW:
        is_superseded[slots[slot, _NEXT_ROW]] = False


@inlined
def _records_of(groups: State, data: Bytes, position: int, length: int) -> int:
    """Return the number of a group's records that the walk has counted."""
    slots, copies, _, _, _ = groups
    slot = _find(slots, copies, _hash(data, position, length), data, position, length)
    return slots[slot, _EPOCH] if slots[slot, _KEY] != _EMPTY else 0


@compiled
def _count_record(groups: State, data: Bytes, position: int, length: int) -> State:
    """Count one more record of a group."""
    slots, copies, copies_end, count, _ = groups
    key_hash = _hash(data, position, length)
    slot = _find(slots, copies, key_hash, data, position, length)
    if slots[slot, _KEY] != _EMPTY:
        slots[slot, _EPOCH] += 1
        return groups
    slots[slot, _HASH] = key_hash
    slots[slot, _KEY] = copies_end << _LENGTH_BITS | length
    slots[slot, _EPOCH] = 1
    copies = _with_room(copies, copies_end, length)
    copies_end = copy_bytes(data, position, length, copies, copies_end)
    if 2 * (count + 1) > len(slots):
        slots = _doubled(slots)
    return slots, copies, copies_end, count + 1, 0


@inlined
def _find(
    slots: Integers, copies: Bytes, key_hash: int, data: Bytes, position: int, length: int
) -> int:
    """Return the slot of a key, or the empty slot for it."""
    slot = key_hash & (len(slots) - 1)
    while True:
        key = slots[np.uint64(slot), _KEY]
        if key == _EMPTY or (
            slots[np.uint64(slot), _HASH] == key_hash
            and key & _LENGTH_MASK == length
            and _is_same(copies, key >> _LENGTH_BITS, data, position, length)
        ):
            return int(slot)
        slot = (slot + 1) & (len(slots) - 1)


@inlined
def _hash(data: Bytes, position: int, length: int) -> int:
    """Hash with FNV-1a by words of eight bytes, folded after each word."""
    value = _FNV_OFFSET_BASIS ^ length
    end = position + length
    while end - position >= 8:
        value = (value ^ word(data, position)) * _FNV_PRIME
        value ^= value >> 32
        position += 8
    while position < end:
        value = (value ^ uint8(data, position)) * _FNV_PRIME
        position += 1
    return value ^ value >> 32


@inlined
def _is_same(
    copies: Bytes, copy_position: int, other: Bytes, other_position: int, length: int
) -> bool:
    index = 0
    while length - index >= 8:
        if word(copies, copy_position + index) != word(other, other_position + index):
            return False
        index += 8
    while index < length:
        if uint8(copies, copy_position + index) != uint8(other, other_position + index):
            return False
        index += 1
    return True


@inlined
def _with_room(copies: Bytes, end: int, size: int) -> Bytes:
    if end + size <= len(copies):
        return copies
    larger = np.empty(2 * len(copies) + size, dtype=np.uint8)
    copy_bytes(copies, 0, end, larger, 0)
    return larger


@inlined
def _doubled(slots: Integers) -> Integers:
    size = 2 * len(slots)
    larger = np.full((size, _SLOT_COLUMNS), _EMPTY, dtype=np.int64)
    for index in range(len(slots)):
        if slots[index, _KEY] != _EMPTY:
            slot = slots[index, _HASH] & (size - 1)
            while larger[slot, _KEY] != _EMPTY:
                slot = (slot + 1) & (size - 1)
            for column in range(_SLOT_COLUMNS):
                larger[slot, column] = slots[index, column]
    return larger
