"""The keys met so far when a log is gone through from its end: what supersedes what came before.

A hash table with open addressing, and beside it a copy of the keys: rows are many and far apart,
keys are few, and what is compared must be found in the processor's cache.
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
"""Where the key begins in the copies, and in the lowest bits how long it is."""
_EPOCH: Final = 2
"""What differs between commits that may not hide each other."""
_NEXT_OFFSET: Final = 3
"""What the earliest commit so far committed, or less than any where another record of its key comes
before it."""
_NEXT_ROW: Final = 4
"""The row of that commit, among those that are gone through now."""
_SLOT_COLUMNS: Final = 5
_LENGTH_BITS: Final = 20
_LENGTH_MASK: Final = (1 << _LENGTH_BITS) - 1
"""Room for a key of two strings of 32767 bytes each."""
_EMPTY: Final = -1
_LEAST_SLOTS: Final = 1024
_FNV_OFFSET_BASIS: Final = -3750763034362895579
_FNV_PRIME: Final = 1099511628211

_COUNT: Final = 3
_NO_ROW: Final = -1
_NO_OFFSET: Final = -(1 << 63)

KIND_OTHER: Final = 0
"""Nothing that has to do with keys; greater ones than there are here are no different."""
KIND_PLAIN_COMMIT: Final = 1
KIND_OTHER_OFFSET: Final = 2
"""A tombstone, or a commit of a transaction."""
KIND_GROUP_RECORD: Final = 3

STRING_LENGTH_BYTES: Final = 2


class KeyedRows(NamedTuple):
    """Rows in log order, as columns: where the key of each lies, and what is known of it.

    Positions and lengths are those of the keys in `data`; a key begins with its group, as a string
    with an int16 length. `barriers` says how many places lie behind a row that may hide a record of
    any group.
    """

    data: Bytes
    positions: Integers
    lengths: Integers
    kinds: Integers
    committed_offsets: Integers
    barriers: Integers


State = tuple[Integers, Bytes, int, int, int]
"""The table, the copies of the keys, where these end, how many there are, and how many steps back
between two commits are kept."""


def no_keys() -> State:
    """The state behind the end of a log."""
    slots = np.full((_LEAST_SLOTS, _SLOT_COLUMNS), _EMPTY, dtype=np.int64)
    return slots, np.empty(64 * _LEAST_SLOTS, dtype=np.uint8), 0, 0, 0


@compiled
def mark_superseded(
    rows: KeyedRows, is_superseded: Mask, keys: State, groups: State
) -> tuple[State, State]:
    """Mark each plain commit that a later one with the same key supersedes, and that tells nothing.

    Who set an offset back, and from where, is told by the commits on both sides of that; so they
    stay, and those around a tombstone or a transaction's record of their key, and the first of each
    key among these rows, which may be lower than what came before. Of these steps, the last
    `MOST_STEPS_BACK` stay: logs that go back and forth are no larger for it than others.

    What a record of a group does may depend on whether a commit made the group before it. So of the
    commits before and behind such a record, one of each key stays.

    Rows are gone through from the last to the first; the states that come back, of the commits'
    keys and of the groups with records, are those before the first row, and lead on to earlier
    ones.
    """
    row = len(rows.positions) - 1
    while row >= 0:
        row, keys = _mark_on(rows, row, is_superseded, keys, groups)
        if row < 0:
            break
        if rows.kinds[row] == KIND_GROUP_RECORD:
            position = rows.positions[row]
            length = int16(rows.data, position)
            groups = _with_record(groups, rows.data, position + STRING_LENGTH_BYTES, length)
            row -= 1
        else:
            keys = _with_more_room(keys, rows.lengths[row])
    _keep_firsts(keys[0], is_superseded)
    return keys, groups


@inlined
def _mark_on(
    rows: KeyedRows, last: int, is_superseded: Mask, keys: State, groups: State
) -> tuple[int, State]:
    """Mark from a row on, up to one that is of a group, or for whose key there is no room.

    No array is replaced in here: counting who holds them would take longer than all else.
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
        committed_offset = rows.committed_offsets[place]
        if is_known:
            is_superseded[place] = slots[slot, _EPOCH] == epoch
            if committed_offset > slots[slot, _NEXT_OFFSET] and steps_back < MOST_STEPS_BACK:
                steps_back += 1
                is_superseded[place] = False
                _keep_next(slots, int(slot), is_superseded)
        else:
            if 2 * (count + 1) > len(slots) or copies_end + length > len(copies):
                break
            slots[slot, _HASH] = key_hash
            slots[slot, _KEY] = copies_end << _LENGTH_BITS | length
            copies_end = copy_bytes(rows.data, position, length, copies, copies_end)
            count += 1
        slots[slot, _EPOCH] = epoch
        slots[slot, _NEXT_OFFSET] = committed_offset
        slots[slot, _NEXT_ROW] = row
        row -= 1
    return row, (slots, copies, copies_end, count, steps_back)


@inlined
def _with_more_room(keys: State, length: int) -> State:
    """The same keys, with room for one more of this length."""
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
    """How many records a group has behind a place."""
    slots, copies, _, _, _ = groups
    slot = _find(slots, copies, _hash(data, position, length), data, position, length)
    return slots[slot, _EPOCH] if slots[slot, _KEY] != _EMPTY else 0


@compiled
def _with_record(groups: State, data: Bytes, position: int, length: int) -> State:
    """One more record of a group."""
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
    """The slot of a key, or the empty one where it belongs."""
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
    """FNV-1a by words of eight bytes, folded after each."""
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
def _is_same(one: Bytes, one_position: int, other: Bytes, other_position: int, length: int) -> bool:
    index = 0
    while length - index >= 8:
        if word(one, one_position + index) != word(other, other_position + index):
            return False
        index += 8
    while index < length:
        if uint8(one, one_position + index) != uint8(other, other_position + index):
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
    larger = np.empty((size, _SLOT_COLUMNS), dtype=np.int64)
    for slot in range(size):
        larger[slot, _KEY] = _EMPTY
    for index in range(len(slots)):
        if slots[index, _KEY] != _EMPTY:
            slot = slots[index, _HASH] & (size - 1)
            while larger[slot, _KEY] != _EMPTY:
                slot = (slot + 1) & (size - 1)
            for column in range(_SLOT_COLUMNS):
                larger[slot, column] = slots[index, column]
    return larger
