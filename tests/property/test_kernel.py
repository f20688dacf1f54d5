"""The compiled decoder gives what the readable one gives, for any bytes at all."""

from __future__ import annotations

import itertools
import random
import struct
from dataclasses import fields
from typing import Any
from unittest import mock

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
from coordinator_state.log.record_batch_writer import write_record_batch
from coordinator_state.log.record_set import SETTLED_BYTES
from tests.support.logs.logs import Event, offset_key, offset_value, segment
from tests.support.logs.mutations import Mutations
from tests.support.logs.random_batches import (
    SEEDS,
    Log,
    batch_logs,
    damaged_logs,
    header_like_bytes,
)
from tests.support.logs.random_logs import logs
from tests.support.logs.record_batches import write_message_set
from tests.support.logs.sampling import SAMPLED

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
