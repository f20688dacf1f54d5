"""The replay of `__share_group_state`, beside the shard of Kafka's own jars."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import astuple
from random import Random
from typing import Any, NamedTuple

import pytest

from coordinator_state.records.serde import decode_versioned, encode_key, encode_versioned
from coordinator_state.records.share_state_records import SHARE_STATE_RECORD_TYPES
from coordinator_state.replay.share_partitions import (
    SHARE_SNAPSHOT,
    SHARE_UPDATE,
    SharePartition,
    replay_share_record,
)
from coordinator_state.wire.primitives import uuid_from_text
from coordinator_state.wire.schema import Schema
from streaming.jvm.jars import KAFKA_VERSION, kafka_jars
from tests.golden.java_program import run_java
from tests.support.brokers.jar_sets import RELEASES, SCALA_VERSION
from tests.support.logs.topic_logs import share_fields

Json = dict[str, Any]

SEQUENCES = 3_000
GROUP_ID, TOPIC_ID = "g", "Uj5wn_FqTXirEASvVZRY1w"
EARLY_ACCESS = "4.0.0"
OLDEST, *BETWEEN, NEWEST = (release for release in RELEASES if release != SCALA_VERSION)
RELEASE_PARAMETERS = [
    pytest.param(OLDEST, marks=pytest.mark.long),
    *(pytest.param(release, marks=(pytest.mark.long, pytest.mark.release)) for release in BETWEEN),
    NEWEST,
]


_FIELDS = {
    "snapshotEpoch": "snapshot_epoch",
    "stateEpoch": "state_epoch",
    "leaderEpoch": "leader_epoch",
    "startOffset": "start_offset",
    "deliveryCompleteCount": "delivery_complete_count",
    "createTimestamp": "create_timestamp_ms",
    "writeTimestamp": "write_timestamp_ms",
}
"""Kafka's names of the fields of a state."""


class Record(NamedTuple):
    """A record of one share partition; no value is a tombstone."""

    partition: int
    record_type: int
    raw_value: bytes | None

    def line(self) -> str:
        """The line that the Java program reads."""
        topic_id = uuid_from_text(TOPIC_ID)
        key = {"groupId": GROUP_ID, "topicId": topic_id, "partition": self.partition}
        raw_key = encode_key(SHARE_STATE_RECORD_TYPES[self.record_type], key)
        value = (self.raw_value or b"").hex()
        return f"{GROUP_ID}\t{TOPIC_ID}\t{self.partition}\t{raw_key.hex()}\t{value}\n"


@pytest.mark.parametrize("release", RELEASE_PARAMETERS)
def test_random_records_are_replayed_as_by_kafka(release: str) -> None:
    random = Random(17)
    records = [
        record for number in range(SEQUENCES) for record in _sequence(random, number, release)
    ]
    answers = run_java(
        "ReplayShareState", kafka_jars(release), "".join(record.line() for record in records)
    )
    states: dict[int, SharePartition | None] = {}
    longest = 0
    for record, answer in zip(records, answers, strict=True):
        before = states.get(record.partition)
        schema = _schema(record.record_type, release)
        raw = record.raw_value
        value = None if raw is None else decode_versioned(schema, raw).fields
        after = replay_share_record(before, record.record_type, value)
        states[record.partition] = after
        kafka = json.loads(answer)
        assert _as_kafka(after, kafka, release) == _joined(kafka, release), (before, value)
        longest = max(longest, 0 if after is None else len(after.state_batches))
    assert None in states.values() or release == EARLY_ACCESS
    assert longest > 10


def _schema(record_type: int, release: str) -> Schema:
    kind = SHARE_STATE_RECORD_TYPES[record_type]
    early_access = kind.early_access_value
    return early_access if release == EARLY_ACCESS and early_access is not None else kind.value


def _sequence(random: Random, partition: int, release: str) -> Iterator[Record]:
    """Records of a share partition.

    4.0 fails at tombstones. It also has another state epoch where an update comes first.
    """
    is_early = release == EARLY_ACCESS
    for number in range(random.randint(2, 12)):
        kind = random.choices(("update", "snapshot", "tombstone"), (14, 3, 0 if is_early else 1))[0]
        if kind == "tombstone":
            yield Record(partition, SHARE_SNAPSHOT, None)
            continue
        is_snapshot = kind == "snapshot" or (is_early and number == 0)
        record_type = SHARE_SNAPSHOT if is_snapshot else SHARE_UPDATE
        schema = _schema(record_type, release)
        value = share_fields(random, record_type)
        known = {field.name: value[field.name] for field in schema.fields}
        yield Record(partition, record_type, encode_versioned(schema, 0, known))


def _as_kafka(state: SharePartition | None, kafka: Json | None, release: str) -> Json | None:
    """Our state in the form of the Java program, with the fields that the release has."""
    if state is None:
        return None
    fields: Json = {name: getattr(state, field) or 0 for name, field in _FIELDS.items()}
    fields["stateBatches"] = [list(astuple(batch)) for batch in state.state_batches]
    known = {name: value for name, value in fields.items() if kafka is None or name in kafka}
    return _joined(known, release)


def _joined(state: Json | None, release: str) -> Json | None:
    """Join contiguous batches of one state, which releases before 4.4 may leave apart."""
    if state is None or release == KAFKA_VERSION:
        return state
    joined: list[list[int]] = []
    for first, last, *delivery in state["stateBatches"]:
        if joined and joined[-1][1] + 1 == first and joined[-1][2:] == delivery:
            joined[-1][1] = last
        else:
            joined.append([first, last, *delivery])
    return {**state, "stateBatches": joined}
