"""Coordinator records to bytes and back, beyond the records of `test_golden.py`.

Tests that name one of Kafka's follow GroupCoordinatorRecordSerdeTest at 4.2.0 and the Scala
GroupMetadataManagerTest of 3.9.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from coordinator_state.errors import (
    BufferUnderflow,
    DecodeError,
    EncodeError,
    InvalidLength,
    InvalidUtf8,
    UnexpectedNull,
    UnknownRecordType,
    UnsupportedVersion,
)
from coordinator_state.records.group_record_values import EARLY_ACCESS_VALUES
from coordinator_state.records.record_types import RECORD_TYPES, RecordType
from coordinator_state.records.serde import (
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    encode_versioned,
)
from coordinator_state.records.share_state_records import SHARE_STATE_RECORD_TYPES
from coordinator_state.records.transaction_records import TRANSACTION_RECORD_TYPES
from coordinator_state.wire.primitives import ZERO_UUID
from tests.support.logs.prefixes import assert_no_prefix_is_enough

OFFSET_COMMIT = RECORD_TYPES[1]
GROUP_METADATA = RECORD_TYPES[2]

TOPIC_ID = UUID("523e709f-f16a-4d78-ab10-04af559458d7")
COMMIT = {
    "offset": 100,
    "leaderEpoch": -1,
    "metadata": "m",
    "commitTimestamp": 1234,
    "expireTimestamp": -1,
    "topicId": ZERO_UUID,
}
MEMBER = {
    "memberId": "m",
    "groupInstanceId": None,
    "clientId": "c",
    "clientHost": "/h",
    "rebalanceTimeout": 1000,
    "sessionTimeout": 1500,
    "subscription": b"\x00\x01",
    "assignment": b"\x01\x02",
}
GROUP = {
    "protocolType": "consumer",
    "generation": 1,
    "protocol": "range",
    "leader": "m",
    "currentStateTimestamp": 1234,
    "members": [MEMBER],
}


class TestDecode:
    def test_deserialize_future_offset_commit_value(self) -> None:
        """As `testDeserializeFutureOffsetCommitValue`: unknown tags are skipped."""
        body = "0004 0000000000000064 ffffffff 02 6d 00000000000004d2"
        topic_id = f"00 10 {TOPIC_ID.hex}"
        raw = bytes.fromhex(f"{body} 03 {topic_id} 01 05 0003 666f6f 02 04 00000fa0")
        value = decode_value(OFFSET_COMMIT, raw)

        assert (value.fields, value.trailing_bytes) == (COMMIT | {"topicId": TOPIC_ID}, 0)
        assert_no_prefix_is_enough(lambda prefix: decode_value(OFFSET_COMMIT, prefix), raw)
        without_topic_id = bytes.fromhex(f"{body} 01 8001 00")
        assert decode_value(OFFSET_COMMIT, without_topic_id).fields == COMMIT
        # Kafka's readers do not use the size of a tag that they know.
        wrong_size = bytes.fromhex(f"{body} 01 00 7f {TOPIC_ID.hex}")
        assert decode_value(OFFSET_COMMIT, wrong_size).fields["topicId"] == TOPIC_ID

    def test_deserialize_future_group_metadata_value(self) -> None:
        """As `testDeserializeFutureGroupMetadataValue`: unknown tags in group and member."""
        tags = bytes.fromhex("02 00 05 0003 666f6f 01 04 00000fa0")
        raw = encode_value(GROUP_METADATA, 4, GROUP).removesuffix(b"\x00\x00") + tags + tags
        value = decode_value(GROUP_METADATA, raw)

        assert (value.fields, value.trailing_bytes) == (GROUP, 0)
        assert_no_prefix_is_enough(lambda prefix: decode_value(GROUP_METADATA, prefix), raw)

    def test_an_epoch_alone_is_a_value_of_4_0(self) -> None:
        """Both layouts have version 0, so only the bytes differ."""
        raw = bytes.fromhex("0000 00000005 00")
        value = decode_value(RECORD_TYPES[11], raw)

        assert (value.schema, value.fields) == (EARLY_ACCESS_VALUES[11], {"epoch": 5})
        assert encode_versioned(value.schema, 0, value.fields) == raw
        # A cut value of a later release is no value of 4.0.
        today = encode_value(RECORD_TYPES[11], 0, {"epoch": 5, "metadataHash": 1})
        for prefix in (today[:end] for end in range(len(today)) if today[:end] != raw):
            with pytest.raises(DecodeError, match="ShareGroupMetadataValue"):
                decode_value(RECORD_TYPES[11], prefix)


FLEXIBLE = [
    kind
    for kinds in (RECORD_TYPES, TRANSACTION_RECORD_TYPES, SHARE_STATE_RECORD_TYPES)
    for kind in kinds.values()
    if kind.value.is_flexible(kind.value.versions[1])
]
EMPTY: dict[str, Any] = {"string": "", "bytes": b"", "uuid": ZERO_UUID, "struct": None}


@pytest.mark.parametrize("kind", FLEXIBLE, ids=lambda kind: kind.name)
def test_a_tag_of_a_later_release_changes_nothing(kind: RecordType) -> None:
    """KIP-1282, KIP-1289 and their like may add tagged fields to any record."""
    version = kind.value.versions[1]
    fields = {
        field.name: [] if field.is_array else EMPTY.get(field.type, 0)
        for field in kind.value.fields
        if field.is_in(version) and field.tag is None
    }
    raw = encode_versioned(kind.value, version, fields)
    # The empty section of tagged fields gets the tag 99 with three bytes.
    tagged = raw.removesuffix(b"\x00") + bytes.fromhex("01 63 03 666f6f")
    assert len(tagged) == len(raw) + 5
    expected, later = decode_value(kind, raw), decode_value(kind, tagged)
    assert (later.fields, later.version, later.trailing_bytes) == (
        *(expected.fields, expected.version),
        0,
    )


@pytest.mark.parametrize("record_type", [255, -1, 18, 24, 32767])
def test_deserialize_with_invalid_record_type(record_type: int) -> None:
    """As `testDeserializeWithInvalidRecordType`, `testReadMessageKeyCanReadUnknownMessage`."""
    raw = record_type.to_bytes(2, "big", signed=True)

    with pytest.raises(UnknownRecordType, match=f"unknown record type {record_type}") as caught:
        decode_key(raw + b"garbage")
    assert caught.value.record_type == record_type


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("00", BufferUnderflow, "record key field type at byte 0: 2 bytes needed, 1 left"),
        ("0003", BufferUnderflow, "ConsumerGroupMetadataKey field groupId at byte 2: "),
        ("0001 ffff 0001 74 00000003", UnexpectedNull, "OffsetCommitKey field group at byte 2"),
    ],
)
def test_key(text: str, error: type[DecodeError], message: str) -> None:
    """As `testDeserializeWithKeyEmptyBuffer` and `testDeserializeWithInvalidKeyBytes`."""
    with pytest.raises(error, match=f"^{message}"):
        decode_key(bytes.fromhex(text))


NOT_NULL = "null in a field that is not nullable"
COMMIT_V3, COMMIT_V4 = "0003 0000000000000064 00000005", "0004 0000000000000064 00000005"
COMMIT_TIMESTAMP = "00000000000004d2"
REFUSED_COMMITS = {
    "00": "field version at byte 0: 2 bytes needed, 1 left",
    "0000": "v0 field offset at byte 2: 8 bytes needed, 0 left",
    f"{COMMIT_V3} ffff {COMMIT_TIMESTAMP}": f"v3 field metadata at byte 14: {NOT_NULL}",
    f"{COMMIT_V3} 0001 ff {COMMIT_TIMESTAMP}": (
        "v3 field metadata at byte 16: not UTF-8: invalid start byte (bytes ff)"
    ),
    # The size of an unknown tag.
    f"{COMMIT_V4} 02 6d {COMMIT_TIMESTAMP} 01 05 ffffffff0f": (
        "v4 field tagged fields at byte 31: negative length -1"
    ),
    f"{COMMIT_V4} 02 6d {COMMIT_TIMESTAMP} 01 00 10 00": (
        "v4 field topicId at byte 27: 16 bytes needed, 1 left"
    ),
}
GROUP_V0 = "0000 0001 70 00000001 ffff ffff"
REFUSED_GROUPS = {
    f"0004 02 70 00000001 00 00 {COMMIT_TIMESTAMP} 00": f"v4 field members at byte 18: {NOT_NULL}",
    f"{GROUP_V0} 7fffffff 0000": (
        "v0 field members at byte 13: array of 2147483647 elements, 2 bytes left"
    ),
    f"{GROUP_V0} 00000001 0001 6d 0001 63 0001 68 000005dc ffffffff 00000000": (
        f"v0 field members[0].subscription at byte 30: {NOT_NULL}"
    ),
}
ERRORS = {
    "bytes needed": BufferUnderflow,
    "elements": BufferUnderflow,
    "null": UnexpectedNull,
    "length": InvalidLength,
    "UTF-8": InvalidUtf8,
}


@pytest.mark.parametrize(
    ("record_type", "text", "message"),
    [
        *((OFFSET_COMMIT, text, message) for text, message in REFUSED_COMMITS.items()),
        *((GROUP_METADATA, text, message) for text, message in REFUSED_GROUPS.items()),
    ],
)
def test_a_refused_value_names_type_version_field_and_position(
    record_type: RecordType, text: str, message: str
) -> None:
    """As `testDeserializeWithValueEmptyBuffer`, `testDeserializeWithInvalidValueBytes`."""
    with pytest.raises(DecodeError) as caught:
        decode_value(record_type, bytes.fromhex(text))

    assert str(caught.value) == f"{record_type.value.name} {message}"
    assert type(caught.value) in {error for word, error in ERRORS.items() if word in message}


@pytest.mark.parametrize("version", [-32768, -1, 5, 10])
@pytest.mark.parametrize("record_type", [0, 1, 2])
def test_an_unsupported_version_is_neither_read_nor_written(record_type: int, version: int) -> None:
    """As `testShouldThrowExceptionForUnsupportedGroupMetadataVersion`, and of offset commits."""
    raw = version.to_bytes(2, "big", signed=True) + b"\x00" * 40
    name = RECORD_TYPES[record_type].value.name

    with pytest.raises(UnsupportedVersion) as caught:
        decode_value(RECORD_TYPES[record_type], raw)
    assert str(caught.value) == (
        f"{name} v{version} field version at byte 0: unsupported version; known: 0 to 4"
    )
    with pytest.raises(EncodeError, match=f"{name} has versions 0 to 4, not {version}"):
        encode_value(RECORD_TYPES[record_type], version, {})


def test_defaults_need_not_be_given() -> None:
    short = {"offset": 100, "metadata": "m", "commitTimestamp": 1234}
    for version in range(5):
        raw = encode_value(OFFSET_COMMIT, version, short)
        assert decode_value(OFFSET_COMMIT, raw).fields == COMMIT


@pytest.mark.parametrize("version", [0, 2, 3, 4])
def test_serde_offset_commit_value_with_expire_timestamp(version: int) -> None:
    """As `testSerdeOffsetCommitValueWithExpireTimestamp`: only v1 has a place for it."""
    message = f"expireTimestamp does not exist in version {version}"
    with pytest.raises(EncodeError, match=message):
        encode_value(OFFSET_COMMIT, version, COMMIT | {"expireTimestamp": 2234})


@pytest.mark.parametrize(
    ("record_type", "fields", "message"),
    [
        (OFFSET_COMMIT, {"offset": None}, "OffsetCommitValue.offset is not nullable"),
        (OFFSET_COMMIT, {"offset": 2**63}, f"{2**63} does not fit into int64"),
        (
            OFFSET_COMMIT,
            {"leaderEpoch": 7, "offsett": 1, "a": 2},
            "OffsetCommitValue has no field a, offsett",
        ),
        (GROUP_METADATA, {"members": None}, "GroupMetadataValue.members is not nullable"),
        (GROUP_METADATA, {"members": [None]}, "GroupMetadataValue.members[0] is not nullable"),
        (
            GROUP_METADATA,
            {"members": [MEMBER, {}]},
            "GroupMetadataValue.members[1].memberId is missing",
        ),
    ],
)
def test_what_does_not_fit_is_not_written(
    record_type: RecordType, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_value(record_type, 3, (GROUP if record_type is GROUP_METADATA else COMMIT) | fields)
    assert str(caught.value) == message


def test_a_missing_field_of_a_key_is_named() -> None:
    with pytest.raises(EncodeError, match=r"^OffsetCommitKey\.partition is missing$"):
        encode_key(OFFSET_COMMIT, {"group": "g", "topic": "t"})
