"""The value of an OffsetCommit record, with the column names of the tables."""

from __future__ import annotations

from typing import Any

from coordinator_state.records.record_types import NO_LEADER_EPOCH, NO_TIMESTAMP
from coordinator_state.wire.primitives import ZERO_UUID, uuid_text
from coordinator_state.wire.struct_reader import Fields


def offset_commit_values(fields: Fields) -> dict[str, Any]:
    """Convert the decoded fields of an OffsetCommitValue; Kafka's sentinels become None.

    Timestamps are milliseconds since the epoch, unchanged from the record: any int64.
    """
    leader_epoch, topic_id = fields["leaderEpoch"], fields["topicId"]
    expire_timestamp_ms = fields["expireTimestamp"]
    return {
        "committed_offset": fields["offset"],
        "leader_epoch": None if leader_epoch == NO_LEADER_EPOCH else leader_epoch,
        "metadata": fields["metadata"],
        "commit_timestamp_ms": fields["commitTimestamp"],
        "expire_timestamp_ms": None if expire_timestamp_ms == NO_TIMESTAMP else expire_timestamp_ms,
        "topic_id": None if topic_id == ZERO_UUID else uuid_text(topic_id),
    }
