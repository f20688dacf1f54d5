"""The user data of Kafka Streams in the consumer protocol, under the protocol "stream".

Neither message is flexible, and each begins with its version as an int32. Streams groups (KIP-1071)
have no such bytes; their records have typed fields instead.

SubscriptionInfo, versions 1 to 11: the process, and the sum of offsets of each task that it holds.
AssignmentInfo, versions 1 to 11: the member's tasks and, for interactive queries, the partitions of
every host. Since version 5 a dictionary of topics comes first, and partitions refer to its indexes.

Source: streams/src/main/resources/common/message/SubscriptionInfoData.json and
streams/src/main/java/org/apache/kafka/streams/processor/internals/assignment/{SubscriptionInfo,
AssignmentInfo,ConsumerProtocolUtils}.java at 4.2.0.
"""

from __future__ import annotations

from typing import Final

from coordinator_state.records.serde import DecodedValue, decode_known
from coordinator_state.wire.primitives import read_int32
from coordinator_state.wire.schema import ANY_VERSION, Field, FieldType, Schema

NEWEST_VERSION: Final = 11


def _array(name: str, fields: tuple[Field, ...], first: int = 1, last: int = ANY_VERSION) -> Field:
    return Field(name=name, type="struct", is_array=True, versions=(first, last), fields=fields)


def _single(name: str, kind: FieldType, first: int = 1, last: int = ANY_VERSION) -> Field:
    return Field(name=name, type=kind, versions=(first, last))


_TASK_ID = (_single("topicGroupId", "int32"), _single("partition", "int32"))
_OFFSET_SUM = (_single("partition", "int32"), _single("offsetSum", "int64"))
_TOPIC_PARTITION = (_single("topic", "string"), _single("partition", "int32"))

SUBSCRIPTION_INFO = Schema(
    name="SubscriptionInfo",
    versions=(1, NEWEST_VERSION),
    fields=(
        _single("latestSupportedVersion", "int32", 3),
        _single("processId", "uuid"),
        _array("prevTasks", _TASK_ID, 1, 6),
        _array("standbyTasks", _TASK_ID, 1, 6),
        _single("userEndPoint", "bytes", 2),
        _array(
            "taskOffsetSums",
            (
                _single("topicGroupId", "int32"),
                _single("partition", "int32", 10),
                _single("offsetSum", "int64", 10),
                Field(
                    name="namedTopology",
                    type="string",
                    versions=(10, ANY_VERSION),
                    is_nullable=True,
                ),
                _array("partitionToOffsetSum", _OFFSET_SUM, 7, 9),
            ),
            7,
        ),
        _single("uniqueField", "int8", 8),
        _single("errorCode", "int32", 9),
        _array("clientTags", (_single("key", "bytes"), _single("value", "bytes")), 11),
    ),
)

# A named topology is an int32 count of UTF-16 characters. Topics and hosts come from Java's
# writeUTF, which equals "string" for all names that Kafka and DNS allow.
_NAMED_TOPOLOGY = Field(
    name="namedTopology", type="uint16", is_array=True, versions=(10, ANY_VERSION)
)
_HOST = (_single("host", "string"), _single("port", "int32"))
_NUMBERED = (_single("topicIndex", "int32"), _single("partition", "int32"))
_HOST_PARTITIONS = (
    *_HOST,
    _array("partitions", _TOPIC_PARTITION, 1, 4),
    _array("numberedPartitions", _NUMBERED, 5),
)

ASSIGNMENT_INFO = Schema(
    name="AssignmentInfo",
    versions=(1, NEWEST_VERSION),
    fields=(
        _single("commonlySupportedVersion", "int32", 3),
        _array("activeTasks", (*_TASK_ID, _NAMED_TOPOLOGY)),
        _array(
            "standbyTasks", (*_TASK_ID, _NAMED_TOPOLOGY, _array("partitions", _TOPIC_PARTITION))
        ),
        _array(
            "topicDictionary",
            (_single("topicIndex", "int32"), _single("topic", "string")),
            5,
        ),
        _array("partitionsByHost", _HOST_PARTITIONS, 2),
        _array("standbyPartitionsByHost", _HOST_PARTITIONS, 6),
        _single("errCode", "int32", 4),
        _single("nextRebalanceMs", "int64", 7),
    ),
)


def decode_subscription_info(raw: bytes) -> DecodedValue:
    """Read the user data of a member's subscription.

    Raises:
        DecodeError: the bytes are not a SubscriptionInfo.
    """
    return _decode(SUBSCRIPTION_INFO, raw)


def decode_assignment_info(raw: bytes) -> DecodedValue:
    """Read the user data of a member's assignment, with topic indexes as on the wire.

    Raises:
        DecodeError: the bytes are not an AssignmentInfo.
    """
    return _decode(ASSIGNMENT_INFO, raw)


def _decode(schema: Schema, raw: bytes) -> DecodedValue:
    buffer = memoryview(raw)
    version, position = read_int32(buffer, 0)
    return decode_known(schema, version, buffer, position)
