"""Records that fail a strict load, and that the reference loader otherwise leaves out."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from coordinator_state.errors import ReplayError
from coordinator_state.replay.groups import (
    simple_group,
)
from coordinator_state.replay.loader import LoadWarning
from coordinator_state.replay.offsets import Semantics
from tests.support.logs.loader_log import (
    GROUP,
    KeyAndValue,
    Log,
    both,
    commits,
    committed,
    waiting,
)
from tests.support.logs.logs import offset_key

REFUSED = [
    pytest.param((None, b"x"), "null key", id="null key"),
    pytest.param(
        (offset_key(GROUP, "foo", 0), b"\x00\x05"),
        "OffsetCommitValue v5 field version at byte 0: unsupported version; known: 0 to 4",
        id="unsupported version",
    ),
    pytest.param(
        (offset_key(GROUP, "foo", 0), b"\x00\x03"),
        "OffsetCommitValue v3 field offset at byte 2: 8 bytes needed, 0 left",
        id="cut value",
    ),
]


@both
@pytest.mark.parametrize(("bad", "reason"), REFUSED)
def test_deserialization_error_fails_the_loading(
    semantics: Semantics, bad: KeyAndValue, reason: str
) -> None:
    """As `testDeserializationErrorFailsTheLoading` of CoordinatorLoaderImplTest."""
    log = Log()
    log.append(*commits({("foo", 0): 1}))
    log.append(bad, *commits({("foo", 1): 2}))

    with pytest.raises(ReplayError) as caught:
        log.load(semantics)
    assert str(caught.value) == f"record offset 1: {reason}"
    assert caught.value.record_offset == 1

    loader = log.load(semantics, strict=False)
    assert loader.warnings == [LoadWarning(record_offset=1, reason=reason)]
    assert committed(loader) == {("foo", 0): 1, ("foo", 1): 2}
    assert loader.groups == {GROUP: simple_group(GROUP)}


@both
def test_a_corrupt_batch_is_left_out_with_a_warning(semantics: Semantics) -> None:
    log = Log()
    log.append(*commits({("foo", 0): 1}))
    log.append(*commits({("foo", 0): 2}))
    end_of_second = len(log.raw)
    log.append(*commits({("foo", 1): 3}))
    log.raw[end_of_second - 1] ^= 0xFF
    loader = log.load(semantics, strict=False)

    assert committed(loader) == {("foo", 0): 1, ("foo", 1): 3}
    (warning,) = loader.warnings
    assert warning.record_offset == 1
    assert "CRC-32C" in warning.reason
    with pytest.raises(ReplayError, match="record offset 1: CRC-32C"):
        log.load(semantics)


@both
def test_the_records_before_a_broken_one_in_its_batch_count(semantics: Semantics) -> None:
    log = Log()
    log.append(*commits({("foo", 0): 1, ("foo", 1): 2}))
    cut = bytearray(log.raw)
    # One record more than there is, under a checksum that fits.
    struct.pack_into(">i", cut, 57, 3)
    struct.pack_into(">I", cut, 17, crc32c(cut[21:]))
    log.raw = cut
    loader = log.load(semantics, strict=False)

    assert committed(loader) == {("foo", 0): 1, ("foo", 1): 2}
    assert [warning.reason[:15] for warning in loader.warnings] == ["record 2 of 3: "]
    with pytest.raises(ReplayError, match="record 2 of 3"):
        log.load(semantics)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (None, "null key"),
        (b"\x00\x00\x00", "control record key at byte 2: 2 bytes needed, 1 left"),
        (b"\xff\xff\x00\x01", "control record key: negative version -1"),
    ],
)
@both
def test_a_control_record_that_is_none_ends_nothing(
    semantics: Semantics, key: bytes | None, reason: str
) -> None:
    log = Log()
    log.transactional(1000, *commits({("foo", 0): 1}))
    log.control(key)
    loader = log.load(semantics, strict=False)

    assert waiting(loader) == {1000: {("foo", 0): 1}}
    assert loader.warnings == [LoadWarning(record_offset=1, reason=reason)]
    with pytest.raises(ReplayError, match=f"record offset 1: {reason}"):
        log.load(semantics)


@both
def test_a_control_record_key_of_a_later_version_ends_its_transaction(
    semantics: Semantics,
) -> None:
    log = Log()
    log.transactional(1000, *commits({("foo", 0): 1}))
    log.control(b"\x00\x09\x00\x01and more")

    assert committed(log.load(semantics)) == {("foo", 0): 1}
