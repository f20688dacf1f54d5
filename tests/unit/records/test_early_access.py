"""Share groups of Kafka 4.0.0, which wrote two values in a layout that 4.1 replaced.

Both have version 0, so only the bytes tell.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from coordinator_state.errors import DecodeError
from coordinator_state.records.group_record_values import EARLY_ACCESS_VALUES
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import decode_value, encode_value, encode_versioned


def test_an_epoch_alone() -> None:
    raw = bytes.fromhex("0000 00000005 00")
    value = decode_value(RECORD_TYPES[11], raw)

    assert value.fields == {"epoch": 5}
    assert encode_versioned(value.schema, 0, value.fields) == raw


def test_topics_without_those_that_are_initializing() -> None:
    early = EARLY_ACCESS_VALUES[15]
    topic = {"topicId": UUID(int=7), "topicName": "t"}
    fields = {
        "initializedTopics": [topic | {"partitions": [0, 1]}],
        "deletingTopics": [topic],
    }
    value = decode_value(RECORD_TYPES[15], encode_versioned(early, 0, fields))

    assert (value.schema, value.fields) == (early, fields)


def test_a_value_of_today_that_is_cut_is_not_taken_for_one() -> None:
    raw = encode_value(RECORD_TYPES[11], 0, {"epoch": 5, "metadataHash": 1})
    for end in range(len(raw)):
        if raw[:end] == bytes.fromhex("0000 00000005 00"):
            continue
        with pytest.raises(DecodeError, match="ShareGroupMetadataValue"):
            decode_value(RECORD_TYPES[11], raw[:end])
