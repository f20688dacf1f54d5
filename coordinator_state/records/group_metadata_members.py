"""Cached decoding of the members in GroupMetadata values.

A group writes all its members at every rebalance, and most members are unchanged. So the reader
finds the end of a member from its lengths alone, and looks up the bytes in an LRU cache.
"""

from __future__ import annotations

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
    except (DecodeError, StructError):
        return None
    fields[_MEMBERS.name] = members
    return None if count < 0 or position != len(raw) else fields


def _member_end(version: int, raw: bytes, position: int) -> int:
    """Return the end of a member: four strings, two int32, two fields of bytes.

    The second string exists since v3, the first int32 since v1.

    Raises:
        StructError: the bytes end inside the member.
    """
    for _ in range(4 if version >= 3 else 3):
        (length,) = _INT16.unpack_from(raw, position)
        position += _INT16.size + max(length, 0)
    position += 2 * _INT32.size if version >= 1 else _INT32.size
    for _ in range(2):
        (length,) = _INT32.unpack_from(raw, position)
        position += _INT32.size + max(length, 0)
    return position


def _read_member(version: int, raw: bytes) -> Fields:
    return read_struct(_MEMBERS.fields, version, False, memoryview(raw), 0)[0]


_cached_member = lru_cache(maxsize=_CACHED_MEMBERS)(_read_member)
