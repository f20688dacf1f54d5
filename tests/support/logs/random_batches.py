"""Random record batches, whole and broken, for the decoders."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

from crc32c import crc32c
from hypothesis import strategies as st

from coordinator_state.log.message_set import write_message_set
from coordinator_state.log.record_batch_writer import write_control_batch, write_record_batch
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_key
from tests.support.logs.logs import group_value, offset_key, offset_value

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TIMESTAMPS = st.one_of(st.integers(-2, 2), st.integers(1_700_000_000_000, 1_700_000_001_000), INT64)
COMPRESSIONS = st.sampled_from(["none", "none", "none", "gzip", "snappy", "lz4", "zstd"])
# Few keys, one of them far more often than the others, for records to meet.
NAMES = st.one_of(
    st.just("g"),
    st.just("g"),
    st.just("g"),
    st.sampled_from(["g", "h", "", "é", "\U0001f600☃", "x" * 300]),
    st.text(max_size=4),
)
PARTITIONS = st.one_of(st.just(0), st.just(0), st.just(0), st.integers(0, 2), INT32)

Record = tuple[bytes | None, bytes | None]
Log = tuple[bytes, int]


# --- keys and values -----------------------------------------------------------------------------


@st.composite
def _commit_values(draw: st.DrawFn) -> bytes:
    version = draw(st.integers(0, 4))
    value_fields: dict[str, Any] = {
        "metadata": draw(NAMES),
        "commitTimestamp": draw(TIMESTAMPS),
    }
    if version == 1:
        value_fields["expireTimestamp"] = draw(TIMESTAMPS)
    if version >= 3:
        value_fields["leaderEpoch"] = draw(st.sampled_from([-1, 0, 7, -7]))
    if version == 4:
        value_fields["topicId"] = draw(st.one_of(st.just(UUID(int=0)), st.uuids()))
    value = offset_value(draw(INT64), version, **value_fields)
    if version == 4 and draw(st.booleans()):
        value = _with_tags(value, draw(st.lists(_TAGS, max_size=3)))
    return value


# A tagged field as (tag, announced size, bytes): known, unknown, and some whose size is a lie.
_TAGS = st.one_of(
    st.tuples(st.integers(0, 300), st.binary(max_size=20)).map(lambda t: (t[0], len(t[1]), t[1])),
    st.binary(min_size=16, max_size=16).map(lambda raw: (0, 16, raw)),
    st.tuples(st.integers(0, 1), st.integers(0, 40), st.binary(max_size=20)),
)


def _with_tags(value: bytes, tags: list[tuple[int, int, bytes]]) -> bytes:
    """The v4 value with these tagged fields and a zero topic id of its own."""
    version, offset, leader_epoch = struct.unpack_from(">hqi", value)
    out = struct.pack(">hqi", version, offset, leader_epoch) + b"\x01" + value[-8:]
    out += _unsigned_varint(len(tags))
    for tag, size, raw in tags:
        out += _unsigned_varint(tag) + _unsigned_varint(size) + raw
    return out


def _unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    return bytes([*out, value])


@st.composite
def _broken(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes cut, continued, or with a byte changed."""
    raw = draw(whole)
    how = draw(st.sampled_from(["cut", "continue", "change"]))
    if how == "continue":
        return raw + draw(st.binary(min_size=1, max_size=4))
    position = draw(st.integers(0, len(raw) - 1))
    if how == "cut":
        return raw[:position]
    return raw[:position] + bytes([draw(st.integers(0, 255))]) + raw[position + 1 :]


_COMMIT_KEYS = st.builds(offset_key, NAMES, NAMES, PARTITIONS, st.sampled_from([0, 1]))
_COMMITS: st.SearchStrategy[Record] = st.tuples(
    _COMMIT_KEYS, st.one_of(_commit_values(), _commit_values(), st.none())
)
_GROUP_KEYS = st.builds(lambda g: encode_key(RECORD_TYPES[2], {"group": g}), NAMES)
_OTHERS: st.SearchStrategy[Record] = st.one_of(
    st.tuples(_GROUP_KEYS, st.one_of(st.none(), st.builds(group_value), st.binary(max_size=8))),
    st.tuples(
        st.integers(-3, 30).map(lambda t: struct.pack(">h", t) + b"\x00\x01g\x00\x01m"),
        st.one_of(st.none(), st.binary(max_size=8)),
    ),
    st.tuples(_broken(_COMMIT_KEYS), st.one_of(st.none(), _commit_values())),
    st.tuples(_COMMIT_KEYS, _broken(_commit_values())),
    st.tuples(
        st.one_of(st.none(), st.binary(max_size=12)), st.one_of(st.none(), st.binary(max_size=12))
    ),
)
_RECORDS = st.integers(0, 5).flatmap(lambda number: _COMMITS if number else _OTHERS)


# --- batches and logs ----------------------------------------------------------------------------


@st.composite
def _data_batches(draw: st.DrawFn, base_offset: int) -> Log:
    offset_delta = 0
    records = []
    for _ in range(draw(st.integers(1, 6))):
        records.append((offset_delta, draw(TIMESTAMPS), *draw(_RECORDS)))
        offset_delta += draw(st.sampled_from([1, 1, 1, 4]))
    producer_id = draw(st.sampled_from([-1, -1, -1, 5]))
    batch = write_record_batch(
        base_offset,
        records,
        producer_id=producer_id,
        producer_epoch=draw(st.sampled_from([-1, 0, 3])),
        is_transactional=draw(st.sampled_from([producer_id >= 0] * 5 + [False, True])),
        is_control=draw(st.integers(0, 19)) == 0,
        is_log_append_time=draw(st.booleans()),
        compression=draw(COMPRESSIONS),
        delete_horizon_ms=draw(st.one_of(st.none(), TIMESTAMPS)),
    )
    return batch, base_offset + records[-1][0] + 1


@st.composite
def _control_batches(draw: st.DrawFn, base_offset: int) -> Log:
    if draw(st.booleans()):
        marker = write_control_batch(
            base_offset, 5, draw(st.integers(0, 3)), draw(st.integers(-1, 4)), timestamp_ms=7
        )
        return marker, base_offset + 1
    key = draw(st.one_of(st.none(), st.binary(max_size=6)))
    batch = write_record_batch(
        base_offset, [(0, 7, key, None)], producer_id=5, is_transactional=True, is_control=True
    )
    return batch, base_offset + 1


@st.composite
def _empty_batches(draw: st.DrawFn, base_offset: int) -> Log:
    delta = draw(st.integers(0, 5))
    batch = write_record_batch(base_offset, [], producer_id=5, last_offset_delta=delta)
    return batch, base_offset + delta + 1


@st.composite
def _message_sets(draw: st.DrawFn, base_offset: int) -> Log:
    records = draw(st.lists(_RECORDS, min_size=1, max_size=4))
    messages = [
        (base_offset + index, draw(TIMESTAMPS), *record) for index, record in enumerate(records)
    ]
    raw = write_message_set(
        messages,
        magic=draw(st.integers(0, 1)),
        compression=draw(st.sampled_from(["none", "gzip", "snappy", "lz4"])),
        is_log_append_time=draw(st.booleans()),
    )
    return raw, base_offset + len(messages)


@st.composite
def _resealed_batches(draw: st.DrawFn, base_offset: int) -> Log:
    """A batch with a byte changed and the checksum of a whole one: broken inside."""
    batch, next_offset = draw(_data_batches(base_offset))
    position = draw(st.integers(21, len(batch) - 1))
    changed = bytearray(batch)
    changed[position] ^= 1 << draw(st.integers(0, 7))
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed), next_offset


@st.composite
def batch_logs(draw: st.DrawFn) -> Log:
    kinds: list[Callable[[int], st.SearchStrategy[Log]]] = [_data_batches] * 5
    kinds += [_control_batches, _empty_batches, _message_sets, _resealed_batches]
    pieces: list[bytes] = []
    offset = draw(st.sampled_from([0, 0, 0, 10**12]))
    # The number of batches first: lists as such are mostly too short for anything to meet.
    for _ in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(kinds))
        piece, offset = draw(kind(offset + draw(st.sampled_from([0, 0, 0, 7]))))
        pieces.append(piece)
    return b"".join(pieces), offset


@st.composite
def damaged_logs(draw: st.DrawFn) -> Log:
    raw, next_offset = draw(batch_logs())
    damaged = bytearray(raw)
    for _ in range(draw(st.integers(0, 3)) if raw else 0):
        damaged[draw(st.integers(0, len(raw) - 1))] ^= 1 << draw(st.integers(0, 7))
    del damaged[len(damaged) - draw(st.sampled_from([0, 0, 1, 30, 70])) :]
    return bytes(damaged), next_offset


@st.composite
def header_like_bytes(draw: st.DrawFn) -> bytes:
    """Random bytes behind a length and a magic that lead somewhere, with any checksum at all."""
    body = draw(st.binary(min_size=44, max_size=120))
    header = struct.pack(">qii", draw(st.integers(-1, 50)), len(body) + 5, 0)
    magic = bytes([draw(st.integers(0, 3))])
    return header + magic + struct.pack(">I", crc32c(body)) + body
