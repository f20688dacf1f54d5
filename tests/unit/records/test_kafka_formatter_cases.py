"""Kafka's own cases of printing records, from the tests of its tools at 4.2.0.

OffsetMessageFormatterTest, GroupMetadataMessageFormatterTest, ShareGroupMessageFormatterTest and
DumpLogSegmentsTest. The values are those of the cases; the text has to be theirs to the letter.
"""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any
from uuid import UUID

import pytest

from coordinator_state.records.message_formatter import formatter_json
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import decode_key, decode_value, encode_key, encode_value
from coordinator_state.wire.primitives import uuid_from_text
from coordinator_state.wire.schema import Field

Json = dict[str, Any]

OFFSET_KEY = {"group": "group-id", "topic": "foo", "partition": 1}
ONE_UUID = "AAAAAAAAAAAAAAAAAAAAAQ"
MEMBER_KEY = {"groupId": "group-id", "memberId": "member-id"}


def offset_commit(version: int) -> Json:
    """The fields that the version prints, in its order."""
    fields: Json = {"offset": 100}
    if version >= 3:
        fields["leaderEpoch"] = 10
    fields |= {"metadata": "metadata", "commitTimestamp": 1234}
    if version == 1:
        fields["expireTimestamp"] = 5678
    if version >= 4:
        fields["topicId"] = "MKXx1fIkQy2J9jXHhK8m1w"
    return fields


def group_metadata(version: int) -> Json:
    """The fields that the version prints, in its order."""
    member: Json = {"memberId": "member-1"}
    if version >= 3:
        member["groupInstanceId"] = "group-instance-1"
    member |= {"clientId": "client-1", "clientHost": "host-1"}
    if version >= 1:
        member["rebalanceTimeout"] = 1000
    member |= {"sessionTimeout": 1500, "subscription": "AAE=", "assignment": "AQI="}
    fields: Json = {
        "protocolType": "consumer",
        "generation": 1,
        "protocol": "range",
        "leader": "leader",
    }
    if version >= 2:
        fields["currentStateTimestamp"] = 1234
    return {**fields, "members": [member]}


TOPIC = {"topicId": ONE_UUID, "topicName": "topic"}
SHARE_GROUP: list[tuple[int, Json, Json]] = [
    (
        10,
        MEMBER_KEY,
        {
            "rackId": "rack-a",
            "clientId": "client-id",
            "clientHost": "1.2.3.4",
            "subscribedTopicNames": ["topic"],
        },
    ),
    (11, {"groupId": "group-id"}, {"epoch": 1, "metadataHash": 1}),
    (12, {"groupId": "group-id"}, {"assignmentEpoch": 1}),
    (13, MEMBER_KEY, {"topicPartitions": [{"topicId": ONE_UUID, "partitions": [0, 1]}]}),
    (
        14,
        MEMBER_KEY,
        {
            "memberEpoch": 1,
            "previousMemberEpoch": 0,
            "state": 0,
            "assignedPartitions": [{"topicId": ONE_UUID, "partitions": [0, 1]}],
        },
    ),
    (
        15,
        {"groupId": "group-id"},
        {
            "initializingTopics": [{**TOPIC, "partitions": [1]}],
            "initializedTopics": [{**TOPIC, "partitions": [0]}],
            "deletingTopics": [TOPIC],
        },
    ),
]
CASES: list[tuple[int, Json, int, Json]] = [
    (0, OFFSET_KEY, 0, offset_commit(0)),
    *((1, OFFSET_KEY, version, offset_commit(version)) for version in range(5)),
    *((2, {"group": "group-id"}, version, group_metadata(version)) for version in range(5)),
    *((record_type, key, 0, value) for record_type, key, value in SHARE_GROUP),
    (3, {"groupId": "group"}, 0, {"epoch": 10}),
]


def from_json(fields: tuple[Field, ...], values: Json) -> Json:
    """Fields from the JSON of Kafka's converters."""
    by_name = {field.name: field for field in fields}
    return {name: _from_json(by_name[name], value) for name, value in values.items()}


def _from_json(field: Field, value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(field, element) for element in value]
    if field.type == "struct":
        return from_json(field.fields, value)
    if field.type == "bytes":
        return b64decode(value)
    if field.type == "uuid":
        return uuid_from_text(value)
    return value


def printed(raw_key: bytes, raw_value: bytes | None) -> str:
    key = decode_key(raw_key)
    value = None if raw_value is None else decode_value(key.record_type, raw_value)
    return json.dumps(formatter_json(key, value), separators=(",", ":"))


def as_text(document: Json) -> str:
    return json.dumps(document, separators=(",", ":"))


@pytest.mark.parametrize(("number", "key", "version", "value"), CASES)
def test_a_record_is_printed(number: int, key: Json, version: int, value: Json) -> None:
    kind = RECORD_TYPES[number]
    raw_value = encode_value(kind, version, from_json(kind.value.fields, value))
    assert printed(encode_key(kind, key), raw_value) == as_text(
        {"key": {"type": number, "data": key}, "value": {"version": version, "data": value}}
    )


@pytest.mark.parametrize(("number", "key"), sorted({n: k for n, k, _, _ in CASES}.items()))
def test_a_tombstone_is_printed(number: int, key: Json) -> None:
    assert printed(encode_key(RECORD_TYPES[number], key), None) == as_text(
        {"key": {"type": number, "data": key}, "value": None}
    )


def test_what_is_left_to_its_default_is_printed_as_the_default() -> None:
    """`topicId` is zero where a client did not know it."""
    value = {"offset": 1, "metadata": "", "commitTimestamp": 2, "topicId": UUID(int=0)}
    raw = encode_value(RECORD_TYPES[1], 4, value)
    shown = json.loads(printed(encode_key(RECORD_TYPES[1], OFFSET_KEY), raw))["value"]["data"]
    assert "topicId" not in shown
    assert shown["leaderEpoch"] == -1
