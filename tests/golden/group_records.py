"""Values of consumer, share and streams group records, as the JSON that Kafka's converters read.

By record type: its key, and values with everything in them and with as little as possible.
"""

from __future__ import annotations

from tests.golden.cases import (
    LONG_BYTES,
    MAX_INT32,
    MAX_INT64,
    MIN_INT32,
    MIN_INT64,
    TOPIC_ID,
    TOPIC_ID_OF_ONES,
    UNICODE,
    Json,
)

_GROUP = {"groupId": "g"}
_MEMBER = {"groupId": "g", "memberId": "m"}

_PARTITIONS = [{"topicId": TOPIC_ID, "partitions": [0, 1, MAX_INT32]}]
_MORE_PARTITIONS = [*_PARTITIONS, {"topicId": TOPIC_ID_OF_ONES, "partitions": []}]
_NAMED_PARTITIONS = [{"topicId": TOPIC_ID, "topicName": UNICODE, "partitions": [0, 1]}]
_TOPICS = [{"topicId": TOPIC_ID, "topicName": "t"}]
_TASKS = [{"subtopologyId": "0", "partitions": [0, 1]}, {"subtopologyId": "", "partitions": []}]
_EPOCH_TASKS = [
    {"subtopologyId": "0", "partitions": [0, 1], "assignmentEpochs": [7, -1]},
    {"subtopologyId": UNICODE, "partitions": [2], "assignmentEpochs": None},
]
_TAGS = [{"key": "k", "value": UNICODE}, {"key": "", "value": ""}]
_INTERNAL_TOPICS = [
    {"name": "changelog", "partitions": 3, "replicationFactor": 32767, "topicConfigs": _TAGS},
    {"name": "", "partitions": 0, "replicationFactor": -1, "topicConfigs": []},
]


def _state(epoch: int, previous_epoch: int, state: int) -> Json:
    return {"memberEpoch": epoch, "previousMemberEpoch": previous_epoch, "state": state}


def _member(**fields: object) -> Json:
    return {"rackId": None, "clientId": "c", "clientHost": "/127.0.0.1", **fields}


GROUP_RECORDS: dict[int, tuple[Json, dict[str, Json]]] = {
    3: (
        _GROUP,
        {
            "plain": {"epoch": 1, "metadataHash": 0},
            "hash": {"epoch": MAX_INT32, "metadataHash": MIN_INT64},
        },
    ),
    4: (
        _GROUP,
        {
            "nothing": {"topics": []},
            "racks": {
                "topics": [
                    {
                        "topicId": TOPIC_ID,
                        "topicName": UNICODE,
                        "numPartitions": 2,
                        "partitionMetadata": [
                            {"partition": 0, "racks": ["r1", "", UNICODE]},
                            {"partition": 1, "racks": []},
                        ],
                    },
                    {
                        "topicId": TOPIC_ID_OF_ONES,
                        "topicName": "",
                        "numPartitions": MAX_INT32,
                        "partitionMetadata": [],
                    },
                ]
            },
        },
    ),
    5: (
        _MEMBER,
        {
            "plain": _member(
                instanceId=None,
                subscribedTopicNames=["t"],
                subscribedTopicRegex=None,
                rebalanceTimeoutMs=300000,
                serverAssignor=None,
            ),
            "consumer protocol": _member(
                instanceId=None,
                subscribedTopicNames=["t"],
                subscribedTopicRegex=None,
                rebalanceTimeoutMs=300000,
                serverAssignor=None,
                classicMemberMetadata=None,
            ),
            "classic": _member(
                instanceId="i",
                rackId="r",
                subscribedTopicNames=["t", UNICODE],
                subscribedTopicRegex="^t.*",
                rebalanceTimeoutMs=-1,
                serverAssignor="uniform",
                classicMemberMetadata={
                    "sessionTimeoutMs": 45000,
                    "supportedProtocols": [
                        {"name": "range", "metadata": "AAE="},
                        {"name": "", "metadata": ""},
                        {"name": "long", "metadata": LONG_BYTES},
                    ],
                },
            ),
            "empty strings": _member(
                instanceId="",
                rackId="",
                clientId="",
                clientHost="",
                subscribedTopicNames=[],
                subscribedTopicRegex="",
                rebalanceTimeoutMs=MIN_INT32,
                serverAssignor="",
                classicMemberMetadata={"sessionTimeoutMs": 0, "supportedProtocols": []},
            ),
        },
    ),
    6: (_GROUP, {"plain": {"assignmentEpoch": 1}, "greatest": {"assignmentEpoch": MAX_INT32}}),
    7: (
        _MEMBER,
        {"nothing": {"topicPartitions": []}, "plain": {"topicPartitions": _MORE_PARTITIONS}},
    ),
    8: (
        _MEMBER,
        {
            "stable": {
                **_state(2, 1, 0),
                "assignedPartitions": _MORE_PARTITIONS,
                "partitionsPendingRevocation": [],
            },
            "revoking": {
                **_state(MAX_INT32, -1, 1),
                "assignedPartitions": [],
                "partitionsPendingRevocation": _PARTITIONS,
            },
            "unknown state": {
                **_state(-2, MIN_INT32, -128),
                "assignedPartitions": [],
                "partitionsPendingRevocation": [],
            },
        },
    ),
    10: (
        _MEMBER,
        {
            "plain": _member(subscribedTopicNames=["t"]),
            "rack": _member(rackId="r", subscribedTopicNames=[UNICODE, ""]),
        },
    ),
    11: (
        _GROUP,
        {
            "plain": {"epoch": 1, "metadataHash": 0},
            "greatest": {"epoch": MAX_INT32, "metadataHash": MAX_INT64},
        },
    ),
    12: (_GROUP, {"plain": {"assignmentEpoch": 1}}),
    13: (
        _MEMBER,
        {"nothing": {"topicPartitions": []}, "plain": {"topicPartitions": _MORE_PARTITIONS}},
    ),
    14: (_MEMBER, {"plain": {**_state(2, 1, 0), "assignedPartitions": _MORE_PARTITIONS}}),
    15: (
        _GROUP,
        {
            "nothing": {"initializingTopics": [], "initializedTopics": [], "deletingTopics": []},
            "everything": {
                "initializingTopics": _NAMED_PARTITIONS,
                "initializedTopics": _NAMED_PARTITIONS * 2,
                "deletingTopics": _TOPICS,
            },
        },
    ),
    16: (
        {"groupId": "g", "regularExpression": "^t.*"},
        {
            "plain": {"topics": ["t", UNICODE], "version": 12, "timestamp": 1234},
            "nothing": {"topics": [], "version": MAX_INT64, "timestamp": MIN_INT64},
        },
    ),
    17: (
        _GROUP,
        {
            "plain": {"epoch": 1, "metadataHash": 2},
            "configs": {
                "epoch": MAX_INT32,
                "metadataHash": MIN_INT64,
                "validatedTopologyEpoch": 3,
                "storedDescriptionTopologyEpoch": 4,
                "failedDescriptionTopologyEpoch": 5,
                "lastAssignmentConfigs": _TAGS,
            },
            "no configs": {
                "epoch": 0,
                "metadataHash": 0,
                "validatedTopologyEpoch": 0,
                "lastAssignmentConfigs": [],
            },
        },
    ),
    19: (
        _MEMBER,
        {
            "plain": _member(
                instanceId=None,
                rebalanceTimeoutMs=-1,
                topologyEpoch=0,
                processId="p",
                userEndpoint=None,
                clientTags=[],
            ),
            "everything": _member(
                instanceId="i",
                rackId="r",
                rebalanceTimeoutMs=300000,
                topologyEpoch=MAX_INT32,
                processId=UNICODE,
                userEndpoint={"host": "localhost", "port": 65535},
                clientTags=_TAGS,
            ),
        },
    ),
    20: (_GROUP, {"plain": {"assignmentEpoch": 1}}),
    21: (
        _MEMBER,
        {
            "nothing": {"activeTasks": [], "standbyTasks": [], "warmupTasks": []},
            "plain": {"activeTasks": _TASKS, "standbyTasks": _TASKS, "warmupTasks": _TASKS[:1]},
        },
    ),
    22: (
        _MEMBER,
        {
            "plain": {
                **_state(2, 1, 1),
                "activeTasks": _EPOCH_TASKS,
                "standbyTasks": _TASKS,
                "warmupTasks": [],
                "activeTasksPendingRevocation": _EPOCH_TASKS,
                "standbyTasksPendingRevocation": [],
                "warmupTasksPendingRevocation": _TASKS,
            },
        },
    ),
    23: (
        _GROUP,
        {
            "nothing": {"epoch": 0, "subtopologies": []},
            "everything": {
                "epoch": 5,
                "subtopologies": [
                    {
                        "subtopologyId": "0",
                        "sourceTopics": ["t", UNICODE],
                        "sourceTopicRegex": ["^t.*"],
                        "stateChangelogTopics": _INTERNAL_TOPICS,
                        "repartitionSinkTopics": ["sink"],
                        "repartitionSourceTopics": _INTERNAL_TOPICS,
                        "copartitionGroups": [
                            {
                                "sourceTopics": [0, -1, 32767],
                                "sourceTopicRegex": [0],
                                "repartitionSourceTopics": [],
                            }
                        ],
                    }
                ],
            },
        },
    ),
}
"""Every type from 3 on that Kafka 4.2 writes."""

MUTATED_GROUP_RECORDS: list[tuple[int, str]] = [
    (3, "hash"),
    (7, "plain"),
    (17, "configs"),
    (19, "everything"),
]
