"""The rules of `__share_group_state`: its table is `share_partitions`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from coordinator_state.apply.topic_rows import SHARE_PARTITION_ROW
from coordinator_state.apply.topic_rules import TopicRules
from coordinator_state.records.internal_topics import SHARE_STATE_TOPIC
from coordinator_state.records.share_state_records import SHARE_STATE_RECORD_TYPES
from coordinator_state.replay.share_partitions import (
    UNKNOWN_COUNT,
    SharePartition,
    StateBatch,
    replay_share_record,
)
from coordinator_state.wire.primitives import uuid_text

SHARE_STATE: Final[TopicRules[SharePartition, dict[str, Any]]] = TopicRules(
    name=SHARE_STATE_TOPIC,
    record_types=SHARE_STATE_RECORD_TYPES,
    table="share_partitions",
    row=SHARE_PARTITION_ROW,
    key=("log_partition", "group_id", "topic_id", "partition"),
    key_of=lambda fields: (fields["groupId"], uuid_text(fields["topicId"]), fields["partition"]),
    value_of=dict,
    replay=lambda before, record: replay_share_record(
        before, record.key.record_type.id, record.value, record.record_timestamp_ms
    ),
    state=SharePartition,
    entries=("state_batches", StateBatch),
    nulls={"delivery_complete_count": UNKNOWN_COUNT},
)
"""Its changes have no topic names yet, see `with_topic_names`."""


def with_topic_names(changes: pa.Table, topic_names: Mapping[str, str]) -> pa.Table:
    """The changes with the names of topics that are known by topic id."""
    names = [topic_names.get(topic_id) for topic_id in changes["topic_id"].to_pylist()]
    place = changes.schema.get_field_index("topic")
    return changes.set_column(place, changes.schema.field(place), [pa.array(names, pa.string())])
