"""Whether bytes are a GroupMetadata value, compiled into the loops of `rows`.

Values of the flexible version 4, with trailing bytes or with any error are left to `log_decoder`.

Source: group-coordinator/src/main/resources/common/message/GroupMetadataValue.json at 4.2.0.
"""

from __future__ import annotations

from typing import Final

from coordinator_state.log.kernel.numbers import Bytes, inlined, int16, int32
from coordinator_state.log.kernel.utf8 import is_utf8

_INVALID: Final = -1
_LAST_VERSION: Final = 3
"""The last version that is not flexible."""


@inlined
def is_group_metadata(data: Bytes, position: int, end: int) -> bool:
    """Check a value: int16 version 0 to 3, the fields of the group, and its members."""
    if end - position < 2:
        return False
    version = int16(data, position)
    if version < 0 or version > _LAST_VERSION:
        return False
    position = _after_string(data, position + 2, end, False)  # protocolType
    position = _after(position, end, 4)  # generation
    position = _after_string(data, position, end, True)  # protocol
    position = _after_string(data, position, end, True)  # leader
    if version >= 2:
        position = _after(position, end, 8)  # currentStateTimestamp
    members = position
    position = _after(position, end, 4)
    if position < 0:
        return False
    count = int32(data, members)
    # A member has more bytes than one.
    if count < 0 or count > end - position:
        return False
    for _ in range(count):
        position = _after_member(data, position, end, version)
        if position < 0:
            return False
    return position == end


@inlined
def _after_member(data: Bytes, position: int, end: int, version: int) -> int:
    position = _after_string(data, position, end, False)  # memberId
    if version >= 3:
        position = _after_string(data, position, end, True)  # groupInstanceId
    position = _after_string(data, position, end, False)  # clientId
    position = _after_string(data, position, end, False)  # clientHost
    if version >= 1:
        position = _after(position, end, 4)  # rebalanceTimeout
    position = _after(position, end, 4)  # sessionTimeout
    position = _after_bytes(data, position, end)  # subscription
    return _after_bytes(data, position, end)  # assignment


@inlined
def _after(position: int, end: int, size: int) -> int:
    """Return the position after a field of this size; `_INVALID` if it does not fit."""
    return _INVALID if position < 0 or end - position < size else position + size


@inlined
def _after_string(data: Bytes, position: int, end: int, is_nullable: bool) -> int:
    """Return the position after an int16 length and UTF-8; a negative length is null."""
    start = _after(position, end, 2)
    if start < 0:
        return _INVALID
    length = int16(data, position)
    if length < 0:
        return start if is_nullable else _INVALID
    if length > end - start or not is_utf8(data, start, length):
        return _INVALID
    return start + length


@inlined
def _after_bytes(data: Bytes, position: int, end: int) -> int:
    """Return the position after an int32 length and bytes, which must not be null."""
    start = _after(position, end, 4)
    if start < 0:
        return _INVALID
    length = int32(data, position)
    return _INVALID if length < 0 or length > end - start else start + length
