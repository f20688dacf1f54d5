"""Coordinator records to bytes and back.

Hex vectors are bytes that Kafka 4.2.0's own classes wrote; `test_golden.py` has many more. Tests
that name one of Kafka's follow the Scala GroupMetadataManagerTest of 3.9.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from coordinator_state.errors import (
    EncodeError,
)
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import decode_key, decode_value, encode_key, encode_value
from coordinator_state.wire.primitives import ZERO_UUID
from tests.support.logs.prefixes import assert_no_prefix_is_enough

OFFSET_COMMIT = RECORD_TYPES[1]
GROUP_METADATA = RECORD_TYPES[2]

TOPIC_ID = UUID("523e709f-f16a-4d78-ab10-04af559458d7")


def offset_commit(**fields: Any) -> dict[str, Any]:
    """Every field of an OffsetCommit value, as decoding gives them."""
    return {
        "offset": 100,
        "leaderEpoch": -1,
        "metadata": "m",
        "commitTimestamp": 1234,
        "expireTimestamp": -1,
        "topicId": ZERO_UUID,
        **fields,
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
GROUP_V4 = (
    "0004 09 636f6e73756d6572 00000001 06 72616e6765 02 6d 00000000000004d2"
    "02 02 6d 00 02 63 03 2f68 000003e8 000005dc 03 0001 03 0102 00 00"
)


def test_a_memoryview_is_read_as_bytes_are() -> None:
    key = decode_key(memoryview(bytes.fromhex("0002 0001 67")))
    value = decode_value(OFFSET_COMMIT, memoryview(encode_value(OFFSET_COMMIT, 3, offset_commit())))

    assert key.fields == {"group": "g"}
    assert value.fields == offset_commit()


@pytest.mark.parametrize("version", range(5))
def test_serde_offset_commit_value(version: int) -> None:
    """As `testSerdeOffsetCommitValue`: what a version lacks reads as its default."""
    fields = offset_commit(metadata="metadata", leaderEpoch=15 if version >= 3 else -1)
    raw = encode_value(OFFSET_COMMIT, version, fields)

    assert int.from_bytes(raw[:2], "big") == version
    assert decode_value(OFFSET_COMMIT, raw).fields == fields


def test_serde_offset_commit_value_with_expire_timestamp() -> None:
    """As `testSerdeOffsetCommitValueWithExpireTimestamp`: only v1 has a place for it."""
    fields = offset_commit(expireTimestamp=2234)

    assert decode_value(OFFSET_COMMIT, encode_value(OFFSET_COMMIT, 1, fields)).fields == fields
    for version in (0, 2, 3, 4):
        with pytest.raises(
            EncodeError, match=f"expireTimestamp does not exist in version {version}"
        ):
            encode_value(OFFSET_COMMIT, version, fields)


def test_serde_offset_commit_value_with_none_expire_timestamp() -> None:
    """As `testSerdeOffsetCommitValueWithNoneExpireTimestamp`: v1 says -1, the others nothing."""
    assert encode_value(OFFSET_COMMIT, 1, offset_commit()).endswith(b"\xff" * 8)
    assert not encode_value(OFFSET_COMMIT, 2, offset_commit()).endswith(b"\xff" * 8)


def test_deserialize_future_offset_commit_value() -> None:
    """As `testDeserializeFutureOffsetCommitValue`: unknown tags are skipped."""
    body = "0004 00000000000003e8 00000064 09 6d65746164617461 00000000000007d0"
    topic_id = f"00 10 {TOPIC_ID.hex}"
    fields = offset_commit(
        offset=1000, leaderEpoch=100, metadata="metadata", commitTimestamp=2000, topicId=TOPIC_ID
    )

    raw = bytes.fromhex(f"{body} 03 {topic_id} 01 05 0003 666f6f 02 04 00000fa0")
    value = decode_value(OFFSET_COMMIT, raw)

    assert (value.fields, value.trailing_bytes) == (fields, 0)
    assert_no_prefix_is_enough(lambda prefix: decode_value(OFFSET_COMMIT, prefix), raw)
    without_topic_id = bytes.fromhex(f"{body} 01 8001 00")
    assert decode_value(OFFSET_COMMIT, without_topic_id).fields["topicId"] == ZERO_UUID


def test_deserialize_future_group_metadata_value() -> None:
    """As `testDeserializeFutureGroupMetadataValue`: unknown tags in the group and in its member."""
    tags = "02 00 05 0003 666f6f 01 04 00000fa0"
    raw = bytes.fromhex(GROUP_V4.removesuffix("00 00") + tags + tags)
    value = decode_value(GROUP_METADATA, raw)

    assert (value.fields, value.trailing_bytes) == (GROUP, 0)
    assert_no_prefix_is_enough(lambda prefix: decode_value(GROUP_METADATA, prefix), raw)


def test_the_size_of_a_known_tag_is_not_used_as_in_kafkas_readers() -> None:
    raw = "0004 0000000000000064 00000005 02 6d 00000000000004d2 01 00 7f" + TOPIC_ID.hex

    assert decode_value(OFFSET_COMMIT, bytes.fromhex(raw)).fields["topicId"] == TOPIC_ID


def test_defaults_need_not_be_given_to_encode() -> None:
    short = {"offset": 100, "metadata": "m", "commitTimestamp": 1234}

    for version in range(5):
        raw = encode_value(OFFSET_COMMIT, version, short)
        assert decode_value(OFFSET_COMMIT, raw).fields == offset_commit()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"offset": None}, "OffsetCommitValue.offset is not nullable"),
        ({"metadata": None}, "OffsetCommitValue.metadata is not nullable"),
        ({"offset": 2**63}, f"{2**63} does not fit into int64"),
        ({"leaderEpoch": 7, "offsett": 1, "a": 2}, "OffsetCommitValue has no field a, offsett"),
        ({"topicId": TOPIC_ID}, "OffsetCommitValue.topicId does not exist in version 3"),
    ],
)
def test_what_does_not_fit_is_not_written(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_value(OFFSET_COMMIT, 3, {**offset_commit(), **fields})
    assert str(caught.value) == message


def test_a_missing_field_is_named() -> None:
    with pytest.raises(EncodeError, match=r"^OffsetCommitKey\.partition is missing$"):
        encode_key(OFFSET_COMMIT, {"group": "g", "topic": "t"})
    with pytest.raises(
        EncodeError, match=r"^GroupMetadataValue\.members\[1\]\.memberId is missing$"
    ):
        encode_value(GROUP_METADATA, 3, {**GROUP, "members": [MEMBER, {}]})


def test_null_members_are_not_written() -> None:
    with pytest.raises(EncodeError, match=r"^GroupMetadataValue\.members is not nullable$"):
        encode_value(GROUP_METADATA, 3, {**GROUP, "members": None})
    with pytest.raises(EncodeError, match=r"^GroupMetadataValue\.members\[0\] is not nullable$"):
        encode_value(GROUP_METADATA, 3, {**GROUP, "members": [None]})


@pytest.mark.parametrize("version", [-1, 5])
def test_an_unknown_version_is_not_written(version: int) -> None:
    with pytest.raises(EncodeError, match=f"OffsetCommitValue has versions 0 to 4, not {version}"):
        encode_value(OFFSET_COMMIT, version, offset_commit())
