"""Our codec against what Kafka's own classes wrote and read (see tests/golden/record.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from coordinator_state.errors import DecodeError, InvalidUtf8
from coordinator_state.records.consumer_protocol import (
    ASSIGNMENT,
    NEWEST_VERSION,
    SUBSCRIPTION,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from coordinator_state.records.message_formatter import formatter_json, key_json, value_json
from coordinator_state.records.record_json import record_json
from coordinator_state.records.record_types import RECORD_TYPES, RecordType
from coordinator_state.records.serde import (
    DecodedValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from coordinator_state.records.share_state_records import SHARE_STATE_RECORD_TYPES
from coordinator_state.records.transaction_records import TRANSACTION_RECORD_TYPES
from tests.golden.record import read_golden

Json = dict[str, Any]

RECORDS = [
    (record_types, document)
    for record_types, names in (
        (RECORD_TYPES, ("offset_commit", "group_metadata", "group_records")),
        (TRANSACTION_RECORD_TYPES, ("transaction_records",)),
        (SHARE_STATE_RECORD_TYPES, ("share_state_records",)),
    )
    for name in names
    for document in read_golden(name)
]
KEYS = read_golden("keys")
PROTOCOL_MESSAGES = read_golden("consumer_protocol")

PROTOCOL = {
    "subscription": (SUBSCRIPTION, decode_subscription, encode_subscription),
    "assignment": (ASSIGNMENT, decode_assignment, encode_assignment),
}


def _name(document: Json) -> str:
    name: str = document["name"]
    return name


@pytest.mark.parametrize(
    ("record_types", "document"),
    RECORDS,
    ids=[f"{kinds[0].name}, {document['name']}" for kinds, document in RECORDS],
)
def test_a_record_reads_as_kafka_prints_it_and_is_written_as_kafka_writes_it(
    record_types: Mapping[int, RecordType], document: Json
) -> None:
    raw_key = bytes.fromhex(document["key"])
    raw_value = None if document["value"] is None else bytes.fromhex(document["value"])
    key = decode_key(raw_key, record_types)
    value = None if raw_value is None else decode_value(key.record_type, raw_value)

    # As text, for Kafka's order of the fields.
    assert str(formatter_json(key, value)) == str(document["json"])
    assert key.trailing_bytes == 0
    assert encode_key(key.record_type, key.fields) == raw_key
    if value is not None:
        assert value.trailing_bytes == 0
        assert encode_value(key.record_type, value.version, value.fields) == raw_value
        if "formatted" in document:
            assert record_json(raw_key, raw_value, record_types) == document["formatted"]


@pytest.mark.parametrize("document", KEYS, ids=_name)
def test_a_key_of_any_type_reads_and_is_written_as_kafkas(document: Json) -> None:
    raw = bytes.fromhex(document["key"])
    key = decode_key(raw)

    assert {"type": key.record_type.id, "data": key_json(key)} == document["json"]
    assert encode_key(key.record_type, key.fields) == raw


@pytest.mark.parametrize("document", PROTOCOL_MESSAGES, ids=_name)
def test_a_consumer_protocol_message_reads_and_is_written_as_kafkas(document: Json) -> None:
    message, raw = document["message"], bytes.fromhex(document["raw"])
    _, decode, encode = PROTOCOL[message]

    assert _protocol_json(message, raw) == document["json"]
    assert encode(decode(raw), int.from_bytes(raw[:2], "big")) == raw


NEGATIVE_COUNT = bytes.fromhex("ffffffff0f")
"""As a number of tagged fields: none up to Kafka 4.3, and refused by 4.4."""


def _assert_reads_as_kafka(read: Callable[[], Json], document: Json, raw: bytes) -> None:
    expected = document["json"]
    try:
        ours = read()
    except InvalidUtf8:
        # Kafka reads U+FFFD in its place, and may refuse the bytes after it.
        assert expected is None or "\ufffd" in str(expected), document
    except DecodeError:
        assert expected is None, document
    else:
        is_refused_by_4_4 = expected is None and NEGATIVE_COUNT in raw
        assert is_refused_by_4_4 or ours == expected, document


def test_a_mutated_value_reads_as_kafka_reads_it_or_is_refused_as_kafka_refuses_it() -> None:
    for document in read_golden("mutated_values"):
        raw, record_type = bytes.fromhex(document["value"]), RECORD_TYPES[document["type"]]
        _assert_reads_as_kafka(partial(_value_json, record_type, raw), document, raw)


def test_a_mutated_consumer_protocol_message_reads_as_kafka_reads_it() -> None:
    for document in read_golden("mutated_consumer_protocol"):
        message, raw = document["message"], bytes.fromhex(document["raw"])
        # Kafka asks for the partitions of a member without bytes before it reads them.
        if raw or message != "assignment":
            _assert_reads_as_kafka(partial(_protocol_json, message, raw), document, raw)


def _value_json(record_type: RecordType, raw: bytes) -> Json:
    return value_json(decode_value(record_type, raw))


def _protocol_json(message: str, raw: bytes) -> Json:
    schema, decode, _ = PROTOCOL[message]
    fields = decode(raw)
    value = DecodedValue(schema=schema, version=NEWEST_VERSION, fields=fields, trailing_bytes=0)
    data: Json = value_json(value)["data"]
    return data
