"""Fast reading of the members in GroupMetadata values.

A group writes all its members at every rebalance, and most members are unchanged. So the reader
finds the end of a member from its lengths alone, and looks up the bytes in an LRU cache. A value
that repeats the members of the value before (`MembersOutline.repeats`) need not be decoded at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Final

from coordinator_state.errors import DecodeError
from coordinator_state.records.record_types import GROUP_METADATA_TYPE, RECORD_TYPES
from coordinator_state.wire.struct_reader import Fields, read_struct

_CACHED_MEMBERS: Final = 10_000
_MAX_CACHED_BYTES: Final = 8_192
"""Larger members are not cached: they may have user data of any size."""

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_TWO_INT16: Final = Struct(">hh")
_INT32_INT16: Final = Struct(">ih")
_TIMESTAMP_BYTES: Final = 8
_NO_REBALANCE_TIMEOUT: Final = -1
"""What the field has in version 0."""

_SCHEMA: Final = RECORD_TYPES[GROUP_METADATA_TYPE].value
_MEMBERS: Final = _SCHEMA.fields[-1]
_BEFORE_MEMBERS: Final = _SCHEMA.fields[:-1]


def read_group_metadata(version: int, raw: bytes, position: int) -> Fields | None:
    """Read the fields of a value in a non-flexible version, from `position` on.

    Returns None if the bytes are invalid or have trailing bytes; `read_struct` finds the error.
    Several values may share the same member object.
    """
    try:
        fields, position = read_struct(_BEFORE_MEMBERS, version, False, memoryview(raw), position)
        (count,) = _INT32.unpack_from(raw, position)
        position += _INT32.size
        members = []
        for _ in range(count):
            end = _member_end(version, raw, position)
            read = _read_member if end - position > _MAX_CACHED_BYTES else _cached_member
            members.append(read(version, raw[position:end]))
            position = end
    except (DecodeError, StructError, ValueError):
        return None
    fields[_MEMBERS.name] = members
    return None if count < 0 or position != len(raw) else fields


def _member_end(version: int, raw: bytes, position: int) -> int:
    """Return the end of a member: four strings, two int32, two fields of bytes.

    The second string exists since v3, the first int32 since v1.

    Raises:
        StructError: the bytes end inside the member.
    """
    position = _strings_end(version, raw, position) + _timeouts_bytes(version)
    return _bytes_end(raw, _bytes_end(raw, position))


def _strings_end(version: int, raw: bytes, position: int) -> int:
    for _ in range(4 if version >= 3 else 3):
        (length,) = _INT16.unpack_from(raw, position)
        position += _INT16.size + max(length, 0)
    return position


def _timeouts_bytes(version: int) -> int:
    return 2 * _INT32.size if version >= 1 else _INT32.size


def _bytes_end(raw: bytes, position: int) -> int:
    (length,) = _INT32.unpack_from(raw, position)
    end: int = position + _INT32.size + max(length, 0)
    return end


def _read_member(version: int, raw: bytes) -> Fields:
    """Read a member; its fields are those of `read_struct`.

    Raises:
        ValueError: a string is not UTF-8, or null although it must not be.
        StructError: the bytes end inside the member.
    """
    position = 0
    fields: Fields = {"memberId": None, "groupInstanceId": None}
    for name in ("memberId", "groupInstanceId", "clientId", "clientHost"):
        if name == "groupInstanceId" and version < 3:
            continue
        (length,) = _INT16.unpack_from(raw, position)
        position += _INT16.size
        if length >= 0:
            fields[name] = raw[position : position + length].decode()
            position += length
        elif name != "groupInstanceId":
            raise ValueError(f"{name} is null")
    fields["rebalanceTimeout"] = _NO_REBALANCE_TIMEOUT
    for name in ("rebalanceTimeout", "sessionTimeout")[version < 1 :]:
        (fields[name],) = _INT32.unpack_from(raw, position)
        position += _INT32.size
    for name in ("subscription", "assignment"):
        (length,) = _INT32.unpack_from(raw, position)
        if length < 0:
            raise ValueError(f"{name} is null")
        position += _INT32.size
        fields[name] = raw[position : position + length]
        position += length
    return fields


_cached_member = lru_cache(maxsize=_CACHED_MEMBERS)(_read_member)


@dataclass(slots=True)
class MembersOutline:
    """The members of a classic group's value as bytes, and what else its events compare.

    `members` begins with their number.
    """

    version: int
    protocol_type: bytes
    generation: int
    members: bytes
    _compared: Sequence[slice] = ()

    @classmethod
    def of(cls, raw: bytes) -> MembersOutline | None:
        """Find the members of a valid value; None if it has none, or in a flexible version."""
        version, length = _TWO_INT16.unpack_from(raw)
        if _SCHEMA.is_flexible(version):
            return None
        position = 2 * _INT16.size + length
        protocol_type = raw[2 * _INT16.size : position]
        generation, length = _INT32_INT16.unpack_from(raw, position)  # and the protocol
        position += _INT32_INT16.size + max(length, 0)
        (length,) = _INT16.unpack_from(raw, position)  # the leader
        position += _INT16.size + max(length, 0) + (_TIMESTAMP_BYTES if version >= 2 else 0)
        (count,) = _INT32.unpack_from(raw, position)
        return cls(version, protocol_type, generation, raw[position:]) if count else None

    def repeats(self, before: MembersOutline) -> bool:
        """Whether all members are those of the value before, in ids, clients and assignments.

        Subscriptions may differ if they are as long: consumers write the generation into them. True
        says so for certain; False may only say that something else differs.
        """
        if (self.version, self.protocol_type) != (before.version, before.protocol_type):
            return False
        members, others = self.members, before.members
        if len(members) != len(others):
            return False
        # Lengths are among the compared bytes, so equal bytes are the same fields of both values.
        compared = before._compared or before._all_but_subscriptions()
        if members != others and any(members[at] != others[at] for at in compared):
            return False
        self._compared = compared
        return True

    def _all_but_subscriptions(self) -> list[slice]:
        """All bytes of the members, their lengths and number included, but the subscriptions."""
        raw, position, start = self.members, _INT32.size, 0
        slices = []
        for _ in range(_INT32.unpack_from(raw)[0]):
            position = _strings_end(self.version, raw, position) + _timeouts_bytes(self.version)
            slices.append(slice(start, position + _INT32.size))
            start = _bytes_end(raw, position)
            position = _bytes_end(raw, start)
        return [*slices, slice(start, len(raw))]
