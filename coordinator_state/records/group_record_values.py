"""Value layouts of the record types 3 to 23: consumer, share and streams groups.

All are flexible and have version 0. Later Kafka versions added only tagged fields, with one
exception: 4.1 changed two share group values of 4.0's early access under the same version.

Source: group-coordinator/src/main/resources/common/message/*Value.json at 4.0.0, 4.1.1 and 4.2.0;
KIP-1263 and KIP-1251 for AssignmentTimestamp and AssignmentEpochs, which 4.3 writes.
"""

from __future__ import annotations

from typing import Final

from coordinator_state.wire.schema import Field, FieldType, Schema

NO_REBALANCE_TIMEOUT: Final = -1
NO_TOPOLOGY_EPOCH: Final = -1


def _nullable(name: str, type_name: FieldType = "string") -> Field:
    return Field(name=name, type=type_name, is_nullable=True)


def _array(name: str, type_name: FieldType = "string") -> Field:
    return Field(name=name, type=type_name, is_array=True)


def _structs(name: str, *fields: Field) -> Field:
    return Field(name=name, type="struct", is_array=True, fields=fields)


def _value(name: str, *fields: Field) -> Schema:
    return Schema(name=f"{name}Value", versions=(0, 0), first_flexible=0, fields=fields)


_EPOCH = Field(name="epoch", type="int32")
_METADATA_HASH = Field(name="metadataHash", type="int64")
_TOPIC_ID = Field(name="topicId", type="uuid")
_TOPIC_NAME = Field(name="topicName", type="string")
_PARTITIONS = _array("partitions", "int32")
_SUBSCRIBED_TOPIC_NAMES = _array("subscribedTopicNames")
_CLIENT = (Field(name="clientId", type="string"), Field(name="clientHost", type="string"))
_REBALANCE_TIMEOUT = Field(name="rebalanceTimeoutMs", type="int32", default=NO_REBALANCE_TIMEOUT)
_MEMBER_STATE = (
    Field(name="memberEpoch", type="int32"),
    Field(name="previousMemberEpoch", type="int32"),
    Field(name="state", type="int8"),
)
# One per partition (KIP-1251); streams groups have it since 4.2, consumer groups since 4.3. Kafka's
# schema has the JSON value null as default instead of the string "null"; its generator makes an
# empty array of it.
_ASSIGNMENT_EPOCHS = Field(
    name="assignmentEpochs", type="int32", is_array=True, is_nullable=True, default=[], tag=0
)
_TARGET_ASSIGNMENT = (
    Field(name="assignmentEpoch", type="int32"),
    # 4.3, KIP-1263.
    Field(name="assignmentTimestamp", type="int64", tag=0, default=0),
)


def _topic_partitions(name: str) -> Field:
    return _structs(name, _TOPIC_ID, _PARTITIONS)


def _current_topic_partitions(name: str) -> Field:
    return _structs(name, _TOPIC_ID, _PARTITIONS, _ASSIGNMENT_EPOCHS)


def _named_topic_partitions(name: str) -> Field:
    return _structs(name, _TOPIC_ID, _TOPIC_NAME, _PARTITIONS)


def _tasks(name: str) -> Field:
    return _structs(name, Field(name="subtopologyId", type="string"), _PARTITIONS)


def _current_tasks(name: str) -> Field:
    return _structs(
        name, Field(name="subtopologyId", type="string"), _PARTITIONS, _ASSIGNMENT_EPOCHS
    )


def _key_values(name: str) -> Field:
    return _structs(name, Field(name="key", type="string"), Field(name="value", type="string"))


def _internal_topics(name: str) -> Field:
    return _structs(
        name,
        Field(name="name", type="string"),
        Field(name="partitions", type="int32"),
        Field(name="replicationFactor", type="int16"),
        _key_values("topicConfigs"),
    )


_TOPIC_METADATA = _structs(
    "topics",
    _TOPIC_ID,
    _TOPIC_NAME,
    Field(name="numPartitions", type="int32"),
    _structs("partitionMetadata", Field(name="partition", type="int32"), _array("racks")),
)
_DELETING_TOPICS = _structs("deletingTopics", _TOPIC_ID, _TOPIC_NAME)

GROUP_RECORD_VALUES: Final[dict[int, Schema]] = {
    3: _value(
        "ConsumerGroupMetadata",
        _EPOCH,
        # 4.1, KIP-1101.
        Field(name="metadataHash", type="int64", tag=0, default=0),
    ),
    4: _value("ConsumerGroupPartitionMetadata", _TOPIC_METADATA),
    5: _value(
        "ConsumerGroupMemberMetadata",
        _nullable("instanceId"),
        _nullable("rackId"),
        *_CLIENT,
        _SUBSCRIBED_TOPIC_NAMES,
        _nullable("subscribedTopicRegex"),
        _REBALANCE_TIMEOUT,
        _nullable("serverAssignor"),
        Field(
            name="classicMemberMetadata",
            type="struct",
            is_nullable=True,
            # As with _ASSIGNMENT_EPOCHS: the default is an empty struct, not null.
            default={"sessionTimeoutMs": 0, "supportedProtocols": []},
            tag=0,
            fields=(
                Field(name="sessionTimeoutMs", type="int32"),
                _structs(
                    "supportedProtocols",
                    Field(name="name", type="string"),
                    Field(name="metadata", type="bytes"),
                ),
            ),
        ),
    ),
    6: _value("ConsumerGroupTargetAssignmentMetadata", *_TARGET_ASSIGNMENT),
    7: _value("ConsumerGroupTargetAssignmentMember", _topic_partitions("topicPartitions")),
    8: _value(
        "ConsumerGroupCurrentMemberAssignment",
        *_MEMBER_STATE,
        _current_topic_partitions("assignedPartitions"),
        _current_topic_partitions("partitionsPendingRevocation"),
    ),
    # Only in 4.0.0.
    9: _value("ShareGroupPartitionMetadata", _TOPIC_METADATA),
    10: _value("ShareGroupMemberMetadata", _nullable("rackId"), *_CLIENT, _SUBSCRIBED_TOPIC_NAMES),
    11: _value("ShareGroupMetadata", _EPOCH, _METADATA_HASH),
    12: _value("ShareGroupTargetAssignmentMetadata", *_TARGET_ASSIGNMENT),
    13: _value("ShareGroupTargetAssignmentMember", _topic_partitions("topicPartitions")),
    14: _value(
        "ShareGroupCurrentMemberAssignment",
        *_MEMBER_STATE,
        _topic_partitions("assignedPartitions"),
    ),
    15: _value(
        "ShareGroupStatePartitionMetadata",
        _named_topic_partitions("initializingTopics"),
        _named_topic_partitions("initializedTopics"),
        _DELETING_TOPICS,
    ),
    16: _value(
        "ConsumerGroupRegularExpression",
        _array("topics"),
        Field(name="version", type="int64"),
        Field(name="timestamp", type="int64"),
    ),
    17: _value(
        "StreamsGroupMetadata",
        _EPOCH,
        _METADATA_HASH,
        # Both 4.2.
        Field(name="validatedTopologyEpoch", type="int32", tag=0, default=NO_TOPOLOGY_EPOCH),
        Field(
            name="lastAssignmentConfigs",
            type="struct",
            is_array=True,
            is_nullable=True,
            default=[],  # as with _ASSIGNMENT_EPOCHS
            tag=1,
            fields=_key_values("lastAssignmentConfigs").fields,
        ),
        # Both 4.4 (KIP-1331).
        Field(
            name="storedDescriptionTopologyEpoch", type="int32", tag=2, default=NO_TOPOLOGY_EPOCH
        ),
        Field(
            name="failedDescriptionTopologyEpoch", type="int32", tag=3, default=NO_TOPOLOGY_EPOCH
        ),
    ),
    19: _value(
        "StreamsGroupMemberMetadata",
        _nullable("instanceId"),
        _nullable("rackId"),
        *_CLIENT,
        _REBALANCE_TIMEOUT,
        Field(name="topologyEpoch", type="int32"),
        Field(name="processId", type="string"),
        Field(
            name="userEndpoint",
            type="struct",
            is_nullable=True,
            fields=(Field(name="host", type="string"), Field(name="port", type="uint16")),
        ),
        _key_values("clientTags"),
    ),
    20: _value("StreamsGroupTargetAssignmentMetadata", *_TARGET_ASSIGNMENT),
    21: _value(
        "StreamsGroupTargetAssignmentMember",
        _tasks("activeTasks"),
        _tasks("standbyTasks"),
        _tasks("warmupTasks"),
    ),
    22: _value(
        "StreamsGroupCurrentMemberAssignment",
        *_MEMBER_STATE,
        _current_tasks("activeTasks"),
        _current_tasks("standbyTasks"),
        _current_tasks("warmupTasks"),
        _current_tasks("activeTasksPendingRevocation"),
        _current_tasks("standbyTasksPendingRevocation"),
        _current_tasks("warmupTasksPendingRevocation"),
    ),
    23: _value(
        "StreamsGroupTopology",
        _EPOCH,
        _structs(
            "subtopologies",
            Field(name="subtopologyId", type="string"),
            _array("sourceTopics"),
            _array("sourceTopicRegex"),
            _internal_topics("stateChangelogTopics"),
            _array("repartitionSinkTopics"),
            _internal_topics("repartitionSourceTopics"),
            _structs(
                "copartitionGroups",
                _array("sourceTopics", "int16"),
                _array("sourceTopicRegex", "int16"),
                _array("repartitionSourceTopics", "int16"),
            ),
        ),
    ),
}
"""Value layouts by record type."""

EARLY_ACCESS_VALUES: Final[dict[int, Schema]] = {
    11: _value("ShareGroupMetadata", _EPOCH),
    15: _value(
        "ShareGroupStatePartitionMetadata",
        _named_topic_partitions("initializedTopics"),
        _DELETING_TOPICS,
    ),
}
"""Layouts that 4.0.0 wrote. No bytes fit both: read in the other layout, both end too early."""
