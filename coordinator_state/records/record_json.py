"""A record as a JSON document in the shape of Kafka's own message formatters.

`{"key": {"type": …, "data": …}, "value": {"version": …, "data": …}}`. A record that cannot be
decoded has `error` and its raw bytes. No data makes this module raise.

Source: tools/src/main/java/org/apache/kafka/tools/consumer/CoordinatorRecordMessageFormatter.java
at 4.4.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coordinator_state.errors import DecodeError, UnknownRecordType
from coordinator_state.records.message_formatter import formatter_json
from coordinator_state.records.record_types import RECORD_TYPES, RecordType
from coordinator_state.records.serde import decode_key, decode_value
from coordinator_state.records.transaction_records import (
    TRANSACTION_RECORD_TYPES,
    TRANSACTION_STATES,
)

Document = dict[str, Any]
RecordTypes = Mapping[int, RecordType]


def record_json(
    key: bytes | None, value: bytes | None, record_types: RecordTypes = RECORD_TYPES
) -> Document:
    """Decode one record; a record without a value is a tombstone.

    `record_types` are those of the record's topic, by default of `__consumer_offsets`.
    """
    if key is None:
        return error_json("null key", key, value)
    try:
        decoded = decode_key(key, record_types)
        if value is None:
            return formatter_json(decoded, None)
        document = formatter_json(decoded, decode_value(decoded.record_type, value))
        if decoded.record_type is TRANSACTION_RECORD_TYPES[0]:
            _name_state(document["value"]["data"])
        return document
    except (DecodeError, UnknownRecordType) as error:
        return error_json(str(error), key, value)


def error_json(reason: str, key: bytes | None, value: bytes | None) -> Document:
    """The document of a record that cannot be decoded."""
    return {
        "error": reason,
        "rawKey": None if key is None else key.hex(),
        "rawValue": None if value is None else value.hex(),
    }


def _name_state(transaction: Document) -> None:
    """Replace the number of a transaction's state by its name.

    Source: `TransactionLogMessageFormatter` at 4.4.0; earlier ones print the number.
    """
    number = transaction["transactionStatus"]
    transaction["transactionStatus"] = TRANSACTION_STATES.get(number, number)
