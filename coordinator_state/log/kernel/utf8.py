"""UTF-8 validation, as strict as Python's decoder; compiled into the loops of `rows`."""

from __future__ import annotations

from typing import Final

from coordinator_state.log.kernel.numbers import Bytes, inlined, uint8, word

_NOT_ASCII: Final = -0x7F7F7F7F7F7F7F80
"""The highest bit of each of eight bytes."""


@inlined
def is_utf8(data: Bytes, position: int, length: int) -> bool:
    """Whether bytes are UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF."""
    end = position + length
    while end - position >= 8 and word(data, position) & _NOT_ASCII == 0:
        position += 8
    if position == end or (end - position < 8 <= end and _is_ascii_end(data, position, end)):
        return True
    while position < end:
        size = _character_size(data, position, end)
        if size == 0:
            return False
        position += size
    return True


@inlined
def _is_ascii_end(data: Bytes, position: int, end: int) -> bool:
    """Whether the last bytes, fewer than eight, are ASCII; reads the eight bytes before `end`."""
    return (word(data, end - 8) & _NOT_ASCII) >> (8 * (position + 8 - end)) == 0


@inlined
def _character_size(data: Bytes, position: int, end: int) -> int:
    """Return the number of bytes of the character at a position, 0 if it is invalid."""
    lead = uint8(data, position)
    if lead < 0x80:
        return 1
    if lead < 0xC2 or lead > 0xF4:
        return 0
    size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    if size > end - position or not _may_follow(lead, uint8(data, position + 1)):
        return 0
    for index in range(position + 2, position + size):
        if uint8(data, index) & 0xC0 != 0x80:
            return 0
    return size


@inlined
def _may_follow(lead: int, second: int) -> bool:
    """Check the second byte: no overlong form (E0, F0), surrogate (ED) or above U+10FFFF (F4)."""
    low, high = 0x80, 0xBF
    if lead == 0xE0:
        low = 0xA0
    elif lead == 0xED:
        high = 0x9F
    elif lead == 0xF0:
        low = 0x90
    elif lead == 0xF4:
        high = 0x8F
    return low <= second <= high
