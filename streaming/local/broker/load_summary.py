"""Load times of `__consumer_offsets`, parsed from a broker's log.

A group coordinator loads each log partition for which its broker is elected leader. Until the load
ends it answers COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR. The load rate of the broker is the
benchmark of this project.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from coordinator_state.records.internal_topics import OFFSETS_TOPIC

# First the messages of Kafka 4, then those of Kafka 3.
_LOAD_EVENTS = re.compile(
    rf"Scheduling (?:un)?loading of .*?(?:from|for) {OFFSETS_TOPIC}-(?P<begun>\d+)"
    rf"|Finished loading of metadata from {OFFSETS_TOPIC}-(?P<loaded>\d+) .*?in (?P<ms>\d+)ms "
    r"where (?P<queued>\d+)ms .*?Loaded (?P<records>\d+) records which total to (?P<size>\d+) bytes"
    rf"|Finished loading offsets and group metadata from {OFFSETS_TOPIC}-(?P<loaded_3>\d+) "
    r"in (?P<ms_3>\d+) milliseconds .*?of which (?P<queued_3>\d+) milliseconds"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSummary:
    """How a group coordinator loaded one log partition.

    `duration_ms` counts from the election. It includes `queued_ms`, the time in the queue of the
    only loader thread.

    The coordinator of Kafka 3 logs only the times: `records` and `size_bytes` are None.

    Source: coordinator-common/.../common/runtime/CoordinatorRuntime.java at 4.2.0,
    core/.../coordinator/group/GroupMetadataManager.scala at 3.9.1.
    """

    log_partition: int
    duration_ms: int
    queued_ms: int
    records: int | None
    size_bytes: int | None


def parse_load_summaries(log: str) -> list[LoadSummary]:
    """Summaries of the log partitions that are loaded at the end of a broker's log.

    A later load or unload of a log partition discards its earlier load. A restarted broker may load
    a log partition, lose its leadership, and load it again after the next election.

    >>> parse_load_summaries(
    ...     "Finished loading of metadata from __consumer_offsets-42 with epoch 2 in 4ms where 1ms "
    ...     "was spent in the scheduler. Loaded 7 records which total to 901 bytes."
    ... )
    [LoadSummary(log_partition=42, duration_ms=4, queued_ms=1, records=7, size_bytes=901)]
    """
    loaded: dict[int, LoadSummary] = {}
    for event in _LOAD_EVENTS.finditer(log):
        if event["begun"] is not None:
            loaded.pop(int(event["begun"]), None)
            continue
        is_kafka_3 = event["loaded_3"] is not None
        log_partition = int(event["loaded_3"] if is_kafka_3 else event["loaded"])
        loaded[log_partition] = LoadSummary(
            log_partition=log_partition,
            duration_ms=int(event["ms_3"] if is_kafka_3 else event["ms"]),
            queued_ms=int(event["queued_3"] if is_kafka_3 else event["queued"]),
            records=None if is_kafka_3 else int(event["records"]),
            size_bytes=None if is_kafka_3 else int(event["size"]),
        )
    return list(loaded.values())
