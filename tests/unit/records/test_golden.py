"""Our codec against what Kafka's own classes wrote and read (see tests/golden/record.py)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
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
    *read_golden("offset_commit"),
    *read_golden("group_metadata"),
    *read_golden("group_records"),
]
INTERNAL_TOPIC_RECORDS = [
    *((TRANSACTION_RECORD_TYPES, document) for document in read_golden("transaction_records")),
    *((SHARE_STATE_RECORD_TYPES, document) for document in read_golden("share_state_records")),
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


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@pytest.mark.parametrize("document", RECORDS, ids=_name)
def test_a_record_reads_as_kafka_prints_it_and_is_written_as_kafka_writes_it(
    document: Json,
) -> None:
    raw_key, raw_value = bytes.fromhex(document["key"]), _bytes(document["value"])
    key = decode_key(raw_key)
    value = None if raw_value is None else decode_value(key.record_type, raw_value)

    # As text, for Kafka's order of the fields.
    assert str(formatter_json(key, value)) == str(document["json"])
    assert key.trailing_bytes == 0
    assert encode_key(key.record_type, key.fields) == raw_key
    if value is not None:
        assert value.trailing_bytes == 0
        assert encode_value(key.record_type, value.version, value.fields) == raw_value


@pytest.mark.parametrize(
    ("record_types", "document"),
    INTERNAL_TOPIC_RECORDS,
    ids=[f"{kinds[0].name}, {document['name']}" for kinds, document in INTERNAL_TOPIC_RECORDS],
)
def test_a_record_of_another_internal_topic_reads_and_is_written_as_kafkas(
    record_types: Mapping[int, RecordType], document: Json
) -> None:
    raw_key, raw_value = bytes.fromhex(document["key"]), _bytes(document["value"])
    key = decode_key(raw_key, record_types)
    value = None if raw_value is None else decode_value(key.record_type, raw_value)

    assert str(formatter_json(key, value)) == str(document["json"])
    assert encode_key(key.record_type, key.fields) == raw_key
    if value is not None:
        assert value.trailing_bytes == 0
        assert encode_value(key.record_type, value.version, value.fields) == raw_value
        assert record_json(raw_key, raw_value, record_types) == document["formatted"]


@pytest.mark.parametrize("document", KEYS, ids=_name)
def test_a_key_of_any_type_reads_and_is_written_as_kafkas(document: Json) -> None:
    raw = bytes.fromhex(document["key"])
    key = decode_key(raw)

    assert {"type": key.record_type.id, "data": key_json(key)} == document["json"]
    assert encode_key(key.record_type, key.fields) == raw


def test_every_record_type_of_kafka_4_2_is_known_and_9_beside_them() -> None:
    recorded = {document["json"]["type"] for document in KEYS}

    assert set(RECORD_TYPES) - recorded == {9}
    assert recorded <= set(RECORD_TYPES)


@pytest.mark.parametrize("document", PROTOCOL_MESSAGES, ids=_name)
def test_a_consumer_protocol_message_reads_and_is_written_as_kafkas(document: Json) -> None:
    _, decode, encode = PROTOCOL[document["message"]]
    raw = bytes.fromhex(document["raw"])
    fields = decode(raw)

    assert _protocol_json(document["message"], fields) == document["json"]
    assert encode(fields, int.from_bytes(raw[:2], "big")) == raw


def _protocol_json(message: str, fields: Json) -> Json:
    schema, _, _ = PROTOCOL[message]
    value = DecodedValue(schema=schema, version=NEWEST_VERSION, fields=fields, trailing_bytes=0)
    data: Json = value_json(value)["data"]
    return data


NEGATIVE_COUNT = bytes.fromhex("ffffffff0f")
"""As a number of tagged fields: none up to Kafka 4.3, and refused by 4.4."""


def _holds_replacement_character(read_by_kafka: Json | None) -> bool:
    """What is not UTF-8 Kafka reads with U+FFFD in its place; it may refuse what comes behind."""
    return read_by_kafka is None or "\ufffd" in str(read_by_kafka)


def test_a_mutated_value_reads_as_kafka_reads_it_or_is_refused_as_kafka_refuses_it() -> None:
    for document in read_golden("mutated_values"):
        raw = bytes.fromhex(document["value"])
        try:
            ours = value_json(decode_value(RECORD_TYPES[document["type"]], raw))
        except InvalidUtf8:
            assert _holds_replacement_character(document["json"]), document
        except DecodeError:
            assert document["json"] is None, document
        else:
            is_refused_by_4_4 = document["json"] is None and NEGATIVE_COUNT in raw
            assert is_refused_by_4_4 or ours == document["json"], document


def test_a_mutated_consumer_protocol_message_reads_as_kafka_reads_it() -> None:
    for document in read_golden("mutated_consumer_protocol"):
        raw = bytes.fromhex(document["raw"])
        if not raw and document["message"] == "assignment":
            # What the bytes of a member without partitions are; Kafka asks before it reads them.
            continue
        _, decode, _ = PROTOCOL[document["message"]]
        try:
            ours = _protocol_json(document["message"], decode(raw))
        except InvalidUtf8:
            assert _holds_replacement_character(document["json"]), document
        except DecodeError:
            assert document["json"] is None, document
        else:
            assert ours == document["json"], document


def test_bytes_print_as_base64() -> None:
    document = next(d for d in RECORDS if d["name"] == "v3 long bytes")

    member = document["json"]["value"]["data"]["members"][0]
    assert member["subscription"] == b64encode(bytes(range(256)) * 2).decode("ascii")
