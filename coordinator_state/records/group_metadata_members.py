"""Members of GroupMetadata values, each read once however often it comes again.

A group writes all of its members with every rebalance, and most are as they were. So a member's
bytes are framed (which takes no more than its lengths) and looked up among those read lately.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Final

from coordinator_state.errors import DecodeError
from coordinator_state.records.record_types import GROUP_METADATA_TYPE, RECORD_TYPES
from coordinator_state.wire.struct_reader import Fields, read_struct

_MEMBERS_KEPT: Final = 10_000
_MOST_BYTES_KEPT: Final = 8_192
"""Members may carry user data of any size."""

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")

_SCHEMA: Final = RECORD_TYPES[GROUP_METADATA_TYPE].value
_MEMBERS: Final = _SCHEMA.fields[-1]
_BEFORE_MEMBERS: Final = _SCHEMA.fields[:-1]


def read_group_metadata(version: int, raw: bytes, position: int) -> Fields | None:
    """The fields of a value without flexible ones, as `read_struct` reads them, from `position` on.

    None where anything is amiss, or behind the members; `read_struct` tells what. Members may be
    one and the same object in several values.
    """
    try:
        fields, position = read_struct(_BEFORE_MEMBERS, version, False, memoryview(raw), position)
        (count,) = _INT32.unpack_from(raw, position)
        position += _INT32.size
        members = []
        for _ in range(count):
            end = _member_end(version, raw, position)
            read = _read_member if end - position > _MOST_BYTES_KEPT else _member
            members.append(read(version, raw[position:end]))
            position = end
    except (DecodeError, StructError):
        return None
    fields[_MEMBERS.name] = members
    return None if count < 0 or position != len(raw) else fields


def _member_end(version: int, raw: bytes, position: int) -> int:
    """Four strings, of which v3 brought the second; two int32, v1 the first; twice bytes.

    Raises:
        StructError: the bytes end before.
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


_member = lru_cache(maxsize=_MEMBERS_KEPT)(_read_member)
