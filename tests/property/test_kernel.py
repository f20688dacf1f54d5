"""The compiled decoder gives what the readable one gives, for any bytes at all."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import Any
from unittest import mock
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_state.log import kernel, log_decoder, record_set
from coordinator_state.log.commit_sampling import (
    CommitSampling,
    HistoryResolution,
    Resolution,
)
from coordinator_state.log.kernel import checksum, windows
from coordinator_state.log.kernel.numbers import Bytes, Integers, inlined, read_only
from coordinator_state.log.kernel.utf8 import is_utf8
from coordinator_state.log.log_decoder import DecodedRecordSet, OffsetRange
from coordinator_state.log.log_rows import MOST_STEPS_BACK
from coordinator_state.log.record_batch_writer import write_control_batch, write_record_batch
from coordinator_state.log.record_set import SETTLED_BYTES
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_key
from coordinator_state.wire.primitives import write_unsigned_varint
from tests.support.logs.log_rows import SAMPLED
from tests.support.logs.logs import Event, group_value, offset_key, offset_value, segment
from tests.support.logs.random_logs import RandomEvents, logs, seed_lists
from tests.support.logs.record_batches import write_message_set

# --- random batches, and damaged records ----------------------------------------------------------

_SAMPLES = 500
_HUGE = tuple(map(bytes.fromhex, ("7fffffff", "ffffffff", "7fff", "ffffffff0f", "8080808080")))

Record = tuple[bytes | None, bytes | None]


@cache
def _samples() -> list[Record]:
    """Keys and values of sound records of every type."""
    draws, choose = RandomEvents(), random.Random(1)
    drawn = (draws.draw(choose.randrange(1 << 32)) for _ in range(_SAMPLES))
    events = [event for events in drawn for event in events]
    return [(event.key, event.value) for event in events if event.control_type is None]


class Mutations:
    """Draws damaged records."""

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)
        self._samples = _samples()
        self._pieces = [raw for sample in self._samples for raw in sample if raw]

    def record(self) -> Record:
        """A key and a value, one of them damaged, or both."""
        key, value = self._choose.choice(self._samples)
        which = self._choose.randrange(4)
        if which in (0, 3):
            key = self.damaged(key)
        if which in (1, 2, 3):
            value = self.damaged(value)
        return key, value

    def batch(self, first: int, records: int) -> bytes:
        """A sound record batch of damaged records."""
        numbered = [(n, 1_700_000_000_000 + n, *self.record()) for n in range(records)]
        return write_record_batch(first, numbered)

    def damaged(self, raw: bytes | None) -> bytes | None:
        if not raw:
            return self._choose.choice([None, b"", b"\x00"])
        for _ in range(self._choose.choice([1, 1, 1, 2, 5])):
            raw = self._damaged_once(raw)
        return raw

    def _damaged_once(self, raw: bytes) -> bytes:
        choose = self._choose
        at = choose.randrange(len(raw) + 1)
        kind = choose.randrange(4)
        if kind == 0:
            position = min(at, len(raw) - 1)
            if position < 0:
                return raw
            flipped = bytearray(raw)
            flipped[position] ^= 1 << choose.randrange(8)
            return bytes(flipped)
        if kind == 1:
            return raw[:at]
        if kind == 2:
            piece = choose.choice(self._pieces)
            start = choose.randrange(len(piece) + 1)
            end = choose.randrange(start, len(piece) + 1)
            return raw[:at] + piece[start:end] + raw[at + choose.choice([0, end - start]) :]
        huge = choose.choice(_HUGE)
        return raw[:at] + huge + raw[at + len(huge) :]


Log = tuple[bytes, int]
"""Bytes, and the offset after them."""

SEEDS = st.integers(0, 1 << 32)


class RandomBatches:
    """Draws batches; few keys, one of them far more often than the others, for records to meet."""

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)

    def batch(self, base_offset: int) -> Log:
        """A batch of any kind, most often of records."""
        kinds = [self._data_batch] * 5
        kinds += [self._control_batch, self._empty_batch, self._message_set, self._resealed_batch]
        return self._choose.choice(kinds)(base_offset + self._choose.choice([0, 0, 0, 7]))

    def damaged(self, raw: bytes) -> bytes:
        """Bytes with a few bits flipped, and sometimes cut."""
        out = bytearray(raw)
        for _ in range(self._choose.randrange(4) if raw else 0):
            out[self._choose.randrange(len(raw))] ^= 1 << self._choose.randrange(8)
        del out[len(out) - self._choose.choice([0, 0, 1, 30, 70]) :]
        return bytes(out)

    # --- keys and values

    def _int(self, bits: int) -> int:
        return self._choose.getrandbits(bits) - (1 << (bits - 1))

    def _timestamp(self) -> int:
        near = self._choose.randint(-2, 2), 1_700_000_000_000 + self._choose.randrange(1_000)
        return self._choose.choice([*near, self._int(64)])

    def _name(self) -> str:
        others = ["h", "", "\u00e9", "\U0001f600\u2603", "x" * 300, chr(self._choose.randrange(9))]
        return self._choose.choice(["g", "g", "g", self._choose.choice(others)])

    def _bytes(self, most: int) -> bytes | None:
        size = self._choose.randint(-1, most)
        return None if size < 0 else self._choose.randbytes(size)

    def _commit_key(self) -> bytes:
        partition = self._choose.choice([0, 0, 0, self._choose.randrange(3), self._int(32)])
        return offset_key(self._name(), self._name(), partition, self._choose.randrange(2))

    def _commit_value(self) -> bytes:
        choose, version = self._choose, self._choose.randrange(5)
        fields: dict[str, Any] = {"metadata": self._name(), "commitTimestamp": self._timestamp()}
        if version == 1:
            fields["expireTimestamp"] = self._timestamp()
        if version >= 3:
            fields["leaderEpoch"] = choose.choice([-1, 0, 7, -7])
        if version == 4:
            fields["topicId"] = choose.choice([UUID(int=0), UUID(int=choose.getrandbits(128))])
        # Mostly no step back, or nothing would supersede anything.
        committed_offset = choose.choice([*[5] * 7, 4, 6, self._int(64)])
        value = offset_value(committed_offset, version, **fields)
        return self._with_tags(value) if version == 4 and choose.random() < 0.5 else value

    def _with_tags(self, value: bytes) -> bytes:
        """The v4 value with other tags: known, unknown, and some whose size is a lie."""
        choose = self._choose
        version, offset, leader_epoch = struct.unpack_from(">hqi", value)
        out = bytearray(struct.pack(">hqi", version, offset, leader_epoch) + b"\x01" + value[-8:])
        tags = [choose.choice([0, 1, 127, 128, 300]) for _ in range(choose.randrange(4))]
        write_unsigned_varint(out, len(tags))
        for tag in tags:
            raw = choose.randbytes(choose.choice([16, choose.randrange(21)]))
            size = choose.choice([len(raw), len(raw), choose.randrange(41)])
            write_unsigned_varint(out, tag)
            write_unsigned_varint(out, size)
            out += raw
        return bytes(out)

    def _broken(self, raw: bytes) -> bytes:
        """Bytes cut, continued, or with a byte changed."""
        at = self._choose.randrange(len(raw))
        pieces = [b"", self._choose.randbytes(1) + raw[at + 1 :], raw[at:] + b"more"]
        return raw[:at] + self._choose.choice(pieces)

    def _record(self) -> Record:
        value = self._choose.choice([self._commit_value(), self._commit_value(), None])
        if self._choose.randrange(6):
            return self._commit_key(), value
        group_key = encode_key(RECORD_TYPES[2], {"group": self._name()})
        any_type = struct.pack(">h", self._choose.randint(-3, 30)) + b"\x00\x01g\x00\x01m"
        others: list[Record] = [
            (group_key, self._choose.choice([None, group_value(), self._bytes(8)])),
            (any_type, self._bytes(8)),
            (self._broken(self._commit_key()), value),
            (self._commit_key(), self._broken(self._commit_value())),
            (self._bytes(12), self._bytes(12)),
        ]
        return self._choose.choice(others)

    # --- batches

    def _data_batch(self, base_offset: int) -> Log:
        choose, offset_delta, records = self._choose, 0, []
        for _ in range(choose.randint(1, 6)):
            records.append((offset_delta, self._timestamp(), *self._record()))
            offset_delta += choose.choice([1, 1, 1, 4])
        producer_id = choose.choice([-1, -1, -1, 5])
        batch = write_record_batch(
            base_offset,
            records,
            producer_id=producer_id,
            producer_epoch=choose.choice([-1, 0, 3]),
            is_transactional=choose.choice([producer_id >= 0] * 5 + [False, True]),
            is_control=choose.randrange(20) == 0,
            is_log_append_time=choose.random() < 0.5,
            compression=choose.choice(["none"] * 3 + ["gzip", "snappy", "lz4", "zstd"]),
            delete_horizon_ms=choose.choice([None, self._timestamp()]),
        )
        return batch, base_offset + records[-1][0] + 1

    def _control_batch(self, base_offset: int) -> Log:
        if self._choose.random() < 0.5:
            epoch, control_type = self._choose.randrange(4), self._choose.randint(-1, 4)
            marker = write_control_batch(base_offset, 5, epoch, control_type, timestamp_ms=7)
            return marker, base_offset + 1
        record = (0, 7, self._bytes(6), None)
        batch = write_record_batch(
            base_offset, [record], producer_id=5, is_transactional=True, is_control=True
        )
        return batch, base_offset + 1

    def _empty_batch(self, base_offset: int) -> Log:
        delta = self._choose.randrange(6)
        batch = write_record_batch(base_offset, [], producer_id=5, last_offset_delta=delta)
        return batch, base_offset + delta + 1

    def _message_set(self, base_offset: int) -> Log:
        messages = [
            (base_offset + index, self._timestamp(), *self._record())
            for index in range(self._choose.randint(1, 4))
        ]
        raw = write_message_set(
            messages,
            magic=self._choose.randrange(2),
            compression=self._choose.choice(["none", "gzip", "snappy", "lz4"]),
            is_log_append_time=self._choose.random() < 0.5,
        )
        return raw, base_offset + len(messages)

    def _resealed_batch(self, base_offset: int) -> Log:
        """A batch with a bit changed and the checksum of a whole one: broken inside."""
        batch, next_offset = self._data_batch(base_offset)
        changed = bytearray(batch)
        changed[self._choose.randrange(21, len(batch))] ^= 1 << self._choose.randrange(8)
        struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
        return bytes(changed), next_offset


def _log(drawn: tuple[int, Sequence[int]]) -> Log:
    offset, seeds = drawn
    raw = b""
    for seed in seeds:
        batch, offset = RandomBatches(seed).batch(offset)
        raw += batch
    return raw, offset


def batch_logs() -> st.SearchStrategy[Log]:
    return st.tuples(st.sampled_from([0, 0, 0, 10**12]), seed_lists(8)).map(_log)


def damaged_logs() -> st.SearchStrategy[Log]:
    return st.builds(
        lambda log, seed: (RandomBatches(seed).damaged(log[0]), log[1]), batch_logs(), SEEDS
    )


@st.composite
def header_like_bytes(draw: st.DrawFn) -> bytes:
    """Random bytes behind a length and a magic that lead somewhere, with any checksum at all."""
    body = draw(st.binary(min_size=44, max_size=120))
    header = struct.pack(">qii", draw(st.integers(-1, 50)), len(body) + 5, 0)
    magic = bytes([draw(st.integers(0, 3))])
    return header + magic + struct.pack(">I", crc32c(body)) + body


_SAMPLINGS = st.builds(
    CommitSampling.at,
    st.sampled_from([0, 7, 30, 2_000, 4_000_000, 90_000_000, 1_700_000_003_000]),
    st.sampled_from(
        [
            HistoryResolution(),
            HistoryResolution((Resolution(2, 5), Resolution(6, 40)), 12),
            HistoryResolution((), 3),
        ]
    ),
)

# --- the two decoders ----------------------------------------------------------------------------


def _assert_same(
    raw: bytes,
    from_offset: int,
    to_offset: int,
    *,
    sampling: CommitSampling | None,
    is_cut: bool = False,
) -> None:
    expected, actual = (
        decode_record_set(
            raw,
            OffsetRange(
                log_partition=3, from_offset=from_offset, to_offset=to_offset, is_cut=is_cut
            ),
            sampling,
        )
        for decode_record_set in (log_decoder.decode_record_set, kernel.decode_record_set)
    )
    assert actual.rows.to_pylist() == expected.rows.to_pylist()
    assert actual.rows.equals(expected.rows, check_metadata=True)
    actual.rows.validate(full=True)
    counts = [field.name for field in fields(DecodedRecordSet) if field.name != "rows"]
    assert {name: getattr(actual, name) for name in counts} == {
        name: getattr(expected, name) for name in counts
    }


def _range(seed: int, next_offset: int) -> tuple[int, int]:
    """Every second time the whole log."""
    choose = random.Random(seed)
    if choose.random() < 0.5:
        return 0, next_offset
    from_offset = choose.randint(max(0, next_offset - 20), next_offset)
    return from_offset, choose.randint(from_offset, next_offset + 3)


@settings(max_examples=200)
@given(log=batch_logs(), seed=SEEDS, sampling=_SAMPLINGS)
def test_same_rows_for_any_log(log: Log, seed: int, sampling: CommitSampling) -> None:
    raw, next_offset = log
    for each in (None, sampling):
        _assert_same(raw, *_range(seed, next_offset), sampling=each)
    # Compacting rows is compacting while decoding.
    all_rows, expected = (
        log_decoder.decode_record_set(
            raw, OffsetRange(log_partition=3, from_offset=0, to_offset=next_offset), each
        )
        for each in (None, sampling)
    )
    cut = random.Random(seed).randint(0, all_rows.rows.num_rows)
    # Rows in several pieces, each compacted before: what readers of long ranges do.
    pieces = [
        kernel.compact(piece, sampling) for piece in (all_rows.rows[:cut], all_rows.rows[cut:])
    ]
    compacted, superseded = kernel.compact(
        pa.Table.from_batches([piece for piece, _ in pieces]), sampling
    )
    assert compacted.to_pylist() == expected.rows.to_pylist()
    assert superseded + sum(count for _, count in pieces) == expected.records_superseded


@given(events=logs(), seed=SEEDS)
def test_same_rows_where_groups_have_records_between_their_commits(
    events: list[Event], seed: int
) -> None:
    raw, next_offset = segment(events)
    _assert_same(raw, *_range(seed, next_offset), sampling=SAMPLED)


@settings(max_examples=200)
@given(
    log=damaged_logs(),
    seed=SEEDS,
    sampling=st.none() | _SAMPLINGS,
    is_cut=st.booleans(),
    settled_bytes=st.sampled_from([0, 200, SETTLED_BYTES]),
    window_bytes=st.sampled_from([windows.WINDOW_BYTES, windows.WINDOW_BYTES, 1, 100, 300]),
    window_batches=st.sampled_from([windows.WINDOW_BATCHES, windows.WINDOW_BATCHES, 1, 2, 3]),
)
def test_same_rows_for_damaged_logs_and_windows_of_any_size(
    log: Log,
    seed: int,
    sampling: CommitSampling | None,
    is_cut: bool,
    settled_bytes: int,
    window_bytes: int,
    window_batches: int,
) -> None:
    raw, next_offset = log
    sizes: dict[str, Any] = {
        **{"WINDOW_BYTES": window_bytes, "COMPACTED_WINDOW_BYTES": window_bytes},
        "WINDOW_BATCHES": window_batches,
    }
    with (
        mock.patch.object(record_set, "SETTLED_BYTES", settled_bytes),
        mock.patch.multiple(windows, **sizes),
    ):
        _assert_same(raw, *_range(seed, next_offset), sampling=sampling, is_cut=is_cut)


@given(
    raw=st.one_of(st.binary(max_size=200), st.lists(header_like_bytes()).map(b"".join)),
    sampling=st.none() | _SAMPLINGS,
)
def test_same_rows_for_random_bytes(raw: bytes, sampling: CommitSampling | None) -> None:
    _assert_same(raw, 0, 100, sampling=sampling)


@given(seed=SEEDS)
def test_damaged_records_of_sound_batches_are_rows(seed: int) -> None:
    """With COORDINATOR_STATE_HYPOTHESIS=exhaustive, of half a million records."""
    mutations = Mutations(seed)
    raw = mutations.batch(0, 50) + mutations.batch(50, 50)
    _assert_same(raw, 0, 100, sampling=None)
    assert (
        kernel.decode_record_set(raw, OffsetRange(log_partition=0, to_offset=100)).rows.num_rows
        == 100
    )


# --- what chance finds too rarely ----------------------------------------------------------------


def _resealed(batch: bytes, *, behind: bytes = b"", **fields_: int) -> bytes:
    """A batch with header fields changed and bytes behind its records, its checksum right."""
    out = bytearray(batch + behind)
    struct.pack_into(">i", out, 8, len(out) - 12)
    for name, value in fields_.items():
        layout, position = {
            "attributes": (">h", 21),
            "last_offset_delta": (">i", 23),
            "records_count": (">i", 57),
        }[name]
        struct.pack_into(layout, out, position, value)
    struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)


def _one_record(body: str) -> bytes:
    """A batch of one record of these bytes, its length in front."""
    raw = bytes.fromhex(body)
    return _resealed(write_record_batch(0, []), behind=bytes([2 * len(raw)]) + raw, records_count=1)


_COMMIT = write_record_batch(0, [(0, 1, offset_key("g", "t", 0), offset_value(1))])
_EMPTY = write_record_batch(0, [], last_offset_delta=1)
_LONG_METADATA = struct.pack(">hqi", 4, 1, -1) + b"\x81\x80\x02" + bytes(0x8000 + 8) + b"\x00"
_EDGES = {
    "bytes behind the records": _resealed(_COMMIT, behind=b"x"),
    "bytes behind no records": _resealed(_EMPTY, behind=b"x"),
    "one record too many announced": _resealed(_COMMIT, records_count=2),
    "no record announced": _resealed(_COMMIT, records_count=0),
    "negative count": _resealed(_EMPTY, records_count=-1),
    "unknown compression of nothing": _resealed(_EMPTY, attributes=6),
    "unknown compression": _resealed(_COMMIT, attributes=7),
    "compression of nothing": _resealed(_EMPTY, attributes=1),
    "negative last offset delta": _resealed(_COMMIT, last_offset_delta=-1),
    "last offset delta too small": _resealed(
        write_record_batch(0, [(5, 1, offset_key("g", "t", 0), None)]), last_offset_delta=0
    ),
    "greatest base offset": write_record_batch(2**63 - 2**31, [(2**31 - 1, 0, b"k", None)]),
    "base offset too great": write_record_batch(2**63 - 2**31 + 1, [(0, 0, b"k", None)]),
    "metadata too long": write_record_batch(0, [(0, 1, offset_key("g", "t", 0), _LONG_METADATA)]),
    "length of nothing": _one_record(""),
    "record too short": _one_record("00 00 00 01 01"),
    "negative key length that is not -1": _one_record("00 00 00 05 03 00"),
    "varint of more bytes than it needs": _one_record("00 80 00 80 00 01 01 80 00"),
    "varint too long": _one_record("00 ff ff ff ff ff ff ff ff ff ff 01 00 01 01 00"),
    "key beyond the record": _one_record("00 00 00 08 01 00"),
    "value beyond the record": _one_record("00 00 00 01 08 00"),
    "record header": _one_record("00 00 00 01 01 02 02 68 01"),
    "bytes behind the record headers": _one_record("00 00 00 01 01 00 00"),
    "wrapping timestamp": write_record_batch(
        0, [(0, 2**63 - 1, b"k", None), (1, -(2**63), b"k", None)]
    ),
    "batch of no known magic": _COMMIT[:16] + b"\x03" + _COMMIT[17:],
    "length less than a batch": struct.pack(">qiib", 0, 48, 0, 2) + bytes(200),
    "length less than a message": struct.pack(">qiib", 0, 21, 0, 1) + bytes(200),
    "length less than anything": struct.pack(">qi", 0, 13) + bytes(200),
}


@pytest.mark.parametrize("name", _EDGES)
@pytest.mark.parametrize("sampling", [SAMPLED, None])
def test_same_rows_at_edges(name: str, sampling: CommitSampling | None) -> None:
    behind = write_record_batch(2, [(0, 1, offset_key("g", "t", 0), offset_value(1))])
    _assert_same(_EDGES[name] + behind, 0, 100, sampling=sampling)
    _assert_same(_EDGES[name] + behind, 0, 2**63 - 1, sampling=sampling)


def test_a_step_back_from_a_batch_that_the_loops_leave_is_kept() -> None:
    """The readable decoder reads message sets; its commits are not among the keys of the loops."""
    key = offset_key("g", "t", 0)
    raw = b"".join(
        [
            write_record_batch(0, [(0, 1, key, offset_value(5))]),
            write_message_set([(1, 1, key, offset_value(6))], magic=1),
            write_record_batch(2, [(0, 1, key, offset_value(5)), (1, 1, key, offset_value(5))]),
        ]
    )
    _assert_same(raw, 0, 4, sampling=SAMPLED)


def test_utf8_is_that_of_python() -> None:
    every = bytes(range(256))
    bounds = bytes.fromhex("00 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f4 f5 ff")
    for alphabets in ((every,), (every, bounds), (bounds, every), (bounds, bounds, bounds)):
        for characters in itertools.product(*alphabets):
            _assert_utf8_is_that_of_python(bytes(characters))
    for head, tail in itertools.product(itertools.product(bounds, repeat=2), (b"", b"\x80", b"A")):
        _assert_utf8_is_that_of_python(bytes(head) + b"\x80" + tail)


def _assert_utf8_is_that_of_python(raw: bytes) -> None:
    try:
        raw.decode()
        expected = True
    except UnicodeDecodeError:
        expected = False
    assert is_utf8(read_only(np.frombuffer(raw, dtype=np.uint8)), 0, len(raw)) == expected, raw


# --- checksums ------------------------------------------------------------------------------------


@inlined
def _crc32c(data: Bytes, start: int, end: int, tables: Integers) -> int:
    return checksum.crc32c(data, start, end, tables)


@given(raw=st.binary(max_size=100), data=st.data())
def test_checksums_are_those_of_a_library(raw: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(start, len(raw)))
    array = read_only(np.frombuffer(raw, dtype=np.uint8))
    assert _crc32c(array, start, end, checksum.crc32c_tables()) == crc32c(raw[start:end])


@inlined
def _by_tables(crc: int, bits: int, tables: Integers) -> int:
    return checksum.after_word_by_tables(crc, bits, tables)


@inlined
def _by_instruction(crc: int, bits: int, tables: Integers) -> int:
    return checksum.after_word_by_instruction(crc, bits, tables)


@given(crc=st.integers(0, 2**32 - 1), word=st.binary(min_size=8, max_size=8))
def test_both_ways_to_a_checksum_are_those_of_a_library(crc: int, word: bytes) -> None:
    bits, tables = int.from_bytes(word, "little", signed=True), checksum.crc32c_tables()
    # The library's checksums are complements, before and after.
    expected = crc32c(word, crc ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
    assert _by_tables(crc, bits, tables) == expected
    if checksum.has_instruction():
        assert _by_instruction(crc, bits, tables) == expected


# --- compaction ----------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", [SAMPLED, None])
def test_a_window_that_grows_by_decompression_is_decoded_in_turns(
    sampling: CommitSampling | None,
) -> None:
    value = offset_value(1, metadata="x" * 1000)
    raw = b"".join(
        write_record_batch(
            offset,
            [(0, 0, offset_key("g", "t", offset % 3), value)],
            compression="zstd" if offset % 4 else "none",
        )
        for offset in range(20)
    )
    with mock.patch.multiple(windows, WINDOW_BYTES=3000, COMPACTED_WINDOW_BYTES=3000):
        _assert_same(raw, 0, 20, sampling=sampling)


def test_each_of_many_keys_has_its_own_intervals() -> None:
    """The table of keys grows three times; a new place in it has no interval yet."""
    hour_ms, keys = 3_600_000, [offset_key("group", "topic", n) for n in range(3_000)]
    # In each hour each key has three commits within three milliseconds.
    records = [
        (9_000 * turn + place, turn * hour_ms + 700 * (place % 3_000) + place // 3_000, key, value)
        for turn, value in enumerate(map(offset_value, range(2)))
        for place, key in enumerate(keys * 3)
    ]
    raw = write_record_batch(0, records)
    _assert_same(raw, 0, 18_000, sampling=SAMPLED)
    whole = OffsetRange(log_partition=0, to_offset=18_000)
    decoded = [kernel.decode_record_set(raw, whole, SAMPLED) for _ in range(3)]
    assert {each.records_superseded for each in decoded} == {3_000 * 3}


def test_a_log_that_goes_back_and_forth_is_no_larger_for_it() -> None:
    commits = [
        Event(key=offset_key(f"g-{number % 7}", "t", 0), value=offset_value(number * 31 % 1_000))
        for number in range(3 * MOST_STEPS_BACK)
    ]
    raw, next_offset = segment(commits)
    _assert_same(raw, 0, next_offset, sampling=SAMPLED)
    whole = OffsetRange(log_partition=0, to_offset=next_offset)
    decoded = kernel.decode_record_set(raw, whole, SAMPLED)
    assert MOST_STEPS_BACK < decoded.rows.num_rows <= 2 * MOST_STEPS_BACK + 3 * 7
    with mock.patch.multiple(windows, WINDOW_BATCHES=1_000):
        assert kernel.decode_record_set(raw, whole, SAMPLED).rows.equals(decoded.rows)
