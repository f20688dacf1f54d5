"""Requests about the partitions of topics: metadata, offsets, leader epochs and records.

A request with the known leader epoch is refused by a leader of another epoch (KIP-320).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest

from coordinator_state.records.record_types import NO_LEADER_EPOCH
from streaming.kafka.partition_offsets import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1
MAX_TIMESTAMP: Final = -3
"""KIP-734."""
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

_CONSUMER: Final = -1
_NO_SESSION: Final = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": []}


class FetchFrom(NamedTuple):
    """The place of a fetch in a log, and the most bytes of its records."""

    offset: int
    max_bytes: int
    leader_epoch: int = NO_LEADER_EPOCH


def metadata_request(
    names: Iterable[str] | None, topic_ids: Iterable[UUID] = ()
) -> MetadataRequest:
    """Build a request for topics by name or by id; without names and ids, for brokers only.

    `names` None means all topics. Topic ids need brokers since 3.1 (KIP-516).
    """
    Topic = MetadataRequest.MetadataRequestTopic
    by_id = [Topic(topic_id=topic_id, name=None) for topic_id in topic_ids]
    return MetadataRequest(
        topics=None if names is None else [*(Topic(name=name) for name in names), *by_id],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
        min_version=12 if by_id else 4,
    )


def list_offsets_request(
    leader_epochs: Mapping[TopicPartition, int],
    timestamp: int,
    isolation_level: int = READ_UNCOMMITTED,
) -> ListOffsetsRequest:
    """Build a request for one offset of each log.

    `timestamp` selects the log start (`EARLIEST`), the log end (`LATEST`), the record with the
    newest timestamp (`MAX_TIMESTAMP`), or the first record of a time in milliseconds or later. The
    log end is the high watermark, or with `READ_COMMITTED` the last stable offset.
    """
    Topic = ListOffsetsRequest.ListOffsetsTopic
    partitions = _by_topic(
        leader_epochs,
        lambda partition, leader_epoch: Topic.ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=leader_epoch, timestamp=timestamp
        ),
    )
    return ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=isolation_level,
        topics=[Topic(name=name, partitions=group) for name, group in partitions.items()],
        min_version=7 if timestamp == MAX_TIMESTAMP else 2,
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


def fetch_request(
    places: Mapping[TopicPartition, FetchFrom],
    topic_ids: Mapping[str, UUID],
    *,
    max_bytes: int,
    max_wait_ms: int = 0,
    isolation_level: int = READ_UNCOMMITTED,
) -> FetchRequest:
    """Build a request for records, without a fetch session.

    `topic_ids` has the id of each topic by its name. From version 13 on brokers take only ids.
    """
    Topic = FetchRequest.FetchTopic
    partitions = _by_topic(
        places,
        lambda partition, place: Topic.FetchPartition(
            partition=partition,
            current_leader_epoch=place.leader_epoch,
            fetch_offset=place.offset,
            last_fetched_epoch=NO_LEADER_EPOCH,
            log_start_offset=-1,
            partition_max_bytes=place.max_bytes,
        ),
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        topics=[
            Topic(topic=name, topic_id=topic_ids[name], partitions=group)
            for name, group in partitions.items()
        ],
        rack_id="",
        # The first version with record batches of magic 2 in its responses.
        min_version=4,
        **_NO_SESSION,
    )


def _by_topic(
    values: Mapping[TopicPartition, Any], part_of: Callable[[int, Any], Any]
) -> dict[str, list[Any]]:
    """The parts of a request by topic."""
    parts: dict[str, list[Any]] = defaultdict(list)
    for (topic, partition), value in values.items():
        parts[topic].append(part_of(partition, value))
    return parts
