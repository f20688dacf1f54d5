"""Arrays with very many elements, beside the readers of Kafka's own jars."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from coordinator_state.errors import ReplayError
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_key, encode_value
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.releases import Release
from coordinator_state.wire.primitives import uuid_from_text
from streaming.jvm.jars import kafka_jars
from tests.golden.java_program import run_java

RELEASE = "4.4.0"
TARGET_ASSIGNMENT = 7
"""ConsumerGroupTargetAssignmentMember."""
LENGTHS = (1_000_000, 1_000_001)


def test_a_strict_load_refuses_the_arrays_that_kafka_refuses() -> None:
    kind = RECORD_TYPES[TARGET_ASSIGNMENT]
    key = encode_key(kind, {"groupId": "g", "memberId": "m"})
    topic_id = uuid_from_text("Uj5wn_FqTXirEASvVZRY1w")
    entries = [[{"topicId": topic_id, "partitions": [0] * length}] for length in LENGTHS]
    values = [encode_value(kind, 0, {"topicPartitions": entry}) for entry in entries]
    lines = (f"{kind.id}\t{key.hex()}\t{value.hex()}\n" for value in values)
    answers = run_java("ReadRecords", kafka_jars(RELEASE), "".join(lines))
    is_refused = [answer == "null" for answer in answers]
    assert is_refused == [False, True]
    for value, refused in zip(values, is_refused, strict=True):
        loader = ReferenceLoader(strict=True, release=Release.parse(RELEASE))
        with pytest.raises(ReplayError, match="1,000,001") if refused else nullcontext():
            loader.replay(record_offset=0, key=key, value=value)
