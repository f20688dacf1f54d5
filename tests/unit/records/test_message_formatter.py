"""Records as Kafka's message formatters print them.

The JSON is that of OffsetMessageFormatterTest and GroupMetadataMessageFormatterTest
(tools/src/test/java/org/apache/kafka/tools/consumer at 4.2.0).
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from coordinator_state.records.message_formatter import formatter_json, value_json
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import decode_key, decode_value, encode_key, encode_value
from coordinator_state.wire.primitives import ZERO_UUID

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


# Kafka's test has the leader epoch and the expiry in every version; those that lack them drop them.
FORMATTED_OFFSET_COMMITS = [
    (0, {"offset": 100, "metadata": "metadata", "commitTimestamp": 1234}),
    (1, {"offset": 100, "metadata": "metadata", "commitTimestamp": 1234, "expireTimestamp": -1}),
    (2, {"offset": 100, "metadata": "metadata", "commitTimestamp": 1234}),
    (3, {"offset": 100, "leaderEpoch": 10, "metadata": "metadata", "commitTimestamp": 1234}),
    (4, {"offset": 100, "leaderEpoch": 10, "metadata": "metadata", "commitTimestamp": 1234}),
]


@pytest.mark.parametrize(("version", "data"), FORMATTED_OFFSET_COMMITS)
@pytest.mark.parametrize("record_type", [0, 1])
def test_offset_message_formatter(record_type: int, version: int, data: dict[str, Any]) -> None:
    """As `OffsetMessageFormatterTest`, values v0 to v4."""
    fields = {"group": "group-id", "topic": "foo", "partition": 1}
    key = decode_key(encode_key(RECORD_TYPES[record_type], fields))
    value = decode_value(
        RECORD_TYPES[record_type], encode_value(RECORD_TYPES[record_type], version, data)
    )

    assert formatter_json(key, value) == {
        "key": {"type": record_type, "data": fields},
        "value": {"version": version, "data": data},
    }
    assert list(value_json(value)["data"]) == list(data)


def test_offset_message_formatter_tombstone() -> None:
    """As `OffsetMessageFormatterTest`, null value."""
    key = decode_key(bytes.fromhex("0001 0001 67 0001 74 00000003"))

    assert formatter_json(key, None) == {
        "key": {"type": 1, "data": {"group": "g", "topic": "t", "partition": 3}},
        "value": None,
    }


def test_a_topic_id_prints_as_kafkas_uuid_and_its_default_not_at_all() -> None:
    with_id = encode_value(OFFSET_COMMIT, 4, offset_commit(topicId=TOPIC_ID))
    without = encode_value(OFFSET_COMMIT, 4, offset_commit())

    assert value_json(decode_value(OFFSET_COMMIT, with_id))["data"]["topicId"] == (
        "Uj5wn_FqTXirEASvVZRY1w"
    )
    assert "topicId" not in value_json(decode_value(OFFSET_COMMIT, without))["data"]


MEMBER_JSON = {
    "memberId": "member-1",
    "groupInstanceId": "group-instance-1",
    "clientId": "client-1",
    "clientHost": "host-1",
    "rebalanceTimeout": 1000,
    "sessionTimeout": 1500,
    "subscription": "AAE=",
    "assignment": "AQI=",
}
GROUP_JSON = {
    "protocolType": "consumer",
    "generation": 1,
    "protocol": "range",
    "leader": "leader",
    "currentStateTimestamp": 1234,
}
SINCE = {"rebalanceTimeout": 1, "currentStateTimestamp": 2, "groupInstanceId": 3}


@pytest.mark.parametrize("version", range(5))
def test_group_metadata_message_formatter(version: int) -> None:
    """As `GroupMetadataMessageFormatterTest`, values v0 to v4."""
    member = {name: v for name, v in MEMBER_JSON.items() if version >= SINCE.get(name, 0)}
    group = {name: v for name, v in GROUP_JSON.items() if version >= SINCE.get(name, 0)}
    key = decode_key(encode_key(GROUP_METADATA, {"group": "group-id"}))
    raw_member = {**member, "subscription": b"\x00\x01", "assignment": b"\x01\x02"}
    raw = encode_value(GROUP_METADATA, version, {**group, "members": [raw_member]})

    assert formatter_json(key, decode_value(GROUP_METADATA, raw)) == {
        "key": {"type": 2, "data": {"group": "group-id"}},
        "value": {"version": version, "data": {**group, "members": [member]}},
    }


def test_group_metadata_message_formatter_tombstone() -> None:
    """As `GroupMetadataMessageFormatterTest`, null value."""
    key = decode_key(encode_key(GROUP_METADATA, {"group": "group-id"}))

    assert formatter_json(key, None) == {
        "key": {"type": 2, "data": {"group": "group-id"}},
        "value": None,
    }
