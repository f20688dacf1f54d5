"""Requests to the leaders of a topic's partitions: ListOffsets and OffsetForLeaderEpoch.

Each request has the known leader epoch; a leader of another epoch refuses it (KIP-320).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest

EARLIEST: Final = -2
LATEST: Final = -1
MAX_TIMESTAMP: Final = -3
"""KIP-734."""

_CONSUMER: Final = -1
_READ_UNCOMMITTED: Final = 0


def list_offsets_request(
    topic: str, leader_epochs: Mapping[int, int], timestamp: int
) -> ListOffsetsRequest:
    """Build a request for one offset per log partition.

    `timestamp` selects the log start (`EARLIEST`), the high watermark (`LATEST`), or the record
    with the newest timestamp (`MAX_TIMESTAMP`).
    """
    Topic = ListOffsetsRequest.ListOffsetsTopic
    partitions = [
        Topic.ListOffsetsPartition(
            partition_index=log_partition, current_leader_epoch=leader_epoch, timestamp=timestamp
        )
        for log_partition, leader_epoch in leader_epochs.items()
    ]
    return ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=_READ_UNCOMMITTED,
        topics=[Topic(name=topic, partitions=partitions)],
        min_version=7 if timestamp == MAX_TIMESTAMP else 1,
    )


def epoch_ends_request(
    topic: str, leader_epochs: Mapping[int, int], asked_epochs: Mapping[int, int]
) -> OffsetForLeaderEpochRequest:
    """Build a request for the end offsets of earlier leader epochs in the logs of these leaders."""
    Topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    partitions = [
        Topic.OffsetForLeaderPartition(
            partition=log_partition,
            current_leader_epoch=leader_epochs[log_partition],
            leader_epoch=asked_epoch,
        )
        for log_partition, asked_epoch in asked_epochs.items()
    ]
    return OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER, topics=[Topic(topic=topic, partitions=partitions)]
    )
