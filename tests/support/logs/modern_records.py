"""Random records of consumer, share and streams groups, for random logs.

Records are drawn in the order in which brokers write them (a member joins, leaves, a group is
deleted) or one at a time, values and tombstones alike, in a world so small that they meet.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_key, encode_value
from coordinator_state.replay.consumer_groups import ConsumerGroup
from coordinator_state.replay.modern_groups import ModernGroup, Part
from coordinator_state.replay.share_groups import ShareGroup
from coordinator_state.replay.streams_groups import StreamsGroup

KINDS: tuple[type[ModernGroup], ...] = (ConsumerGroup, ShareGroup, StreamsGroup)
MEMBERS = ("m1", "m2", "m3")
REBALANCE_TIMEOUT_MS = 1_800_000
UNKNOWN_TOPIC = UUID(int=77)
_SUBTOPOLOGIES = ("0", "1")

KeyAndValue = tuple[bytes, bytes | None]
Topic = tuple[UUID, str]
"""Its id and its name."""


@dataclass(frozen=True, slots=True)
class ModernRecords:
    """Draws records; topics are those that a cluster knows, and one that it does not."""

    choose: random.Random
    topics: Sequence[Topic]

    def draw(self, group_ids: Sequence[str]) -> list[KeyAndValue]:
        """One record, or a few that belong together, of one of these groups."""
        choose = self.choose
        index = choose.randrange(len(group_ids))
        # A group is mostly of one type, or nothing would ever come of it.
        kind = KINDS[index % len(KINDS)] if choose.random() < 0.9 else choose.choice(KINDS)
        group_id, member = group_ids[index], choose.choice(MEMBERS)
        number = choose.randrange(8)
        if number == 0:
            return self._join(kind, group_id, member)
        if number == 1:
            return self._leave(kind, group_id, member)
        if number == 2:
            return self._delete(kind, group_id)
        record_type = choose.choice(list(kind.parts))
        if choose.random() < 0.25:
            return [self.record(record_type, group_id, member, None)]
        return [self.record(record_type, group_id, member, self.value(record_type))]

    def record(
        self, record_type: int, group_id: str, member: str, fields: dict[str, Any] | None
    ) -> KeyAndValue:
        """A record with these fields, or a tombstone."""
        kind = RECORD_TYPES[record_type]
        key = {field.name: group_id for field in kind.key_fields[:1]}
        key |= {field.name: member for field in kind.key_fields[1:]}
        return encode_key(kind, key), None if fields is None else encode_value(kind, 0, fields)

    def value(self, record_type: int) -> dict[str, Any]:
        """The fields of a value of this type."""
        kind = next(kind for kind in KINDS if record_type in kind.parts)
        part = kind.parts[record_type]
        if part is Part.GROUP:
            return self._group(record_type)
        if part is Part.TARGET_EPOCH:
            return {"assignmentEpoch": self.choose.randrange(4)}
        if part is Part.MEMBER:
            return self._member(record_type)
        if part is Part.TARGET:
            return self._target(kind)
        if part is Part.CURRENT:
            return self._current(kind)
        if part is Part.REGULAR_EXPRESSION:
            return {"topics": self._names(), "version": 1, "timestamp": 2}
        if part is Part.TOPOLOGY:
            return {
                "epoch": self.choose.randrange(3),
                "subtopologies": [_subtopology(number, self._names()) for number in _SUBTOPOLOGIES],
            }
        return self._partition_metadata(record_type)

    def _join(self, kind: type[ModernGroup], group_id: str, member: str) -> list[KeyAndValue]:
        epoch = self.choose.randrange(1, 4)
        type_of = {part: record_type for record_type, part in kind.parts.items()}
        current = {**self.value(type_of[Part.CURRENT]), "memberEpoch": epoch}
        current["state"] = min(kind.member_states)
        values: dict[Part, dict[str, Any]] = {
            Part.MEMBER: self.value(type_of[Part.MEMBER]),
            Part.GROUP: {**self.value(type_of[Part.GROUP]), "epoch": epoch},
            Part.TARGET: self.value(type_of[Part.TARGET]),
            Part.TARGET_EPOCH: {"assignmentEpoch": epoch},
            Part.CURRENT: current,
        }
        if kind is StreamsGroup:
            values[Part.GROUP]["validatedTopologyEpoch"] = epoch
            values[Part.TOPOLOGY] = {**self.value(23), "epoch": epoch}
        return [self.record(type_of[part], group_id, member, v) for part, v in values.items()]

    def _leave(self, kind: type[ModernGroup], group_id: str, member: str) -> list[KeyAndValue]:
        type_of = {part: record_type for record_type, part in kind.parts.items()}
        return [
            self.record(type_of[part], group_id, member, None)
            for part in (Part.CURRENT, Part.TARGET, Part.MEMBER)
        ]

    def _delete(self, kind: type[ModernGroup], group_id: str) -> list[KeyAndValue]:
        type_of = {part: record_type for record_type, part in kind.parts.items()}
        records = [
            self.record(type_of[part], group_id, member, None)
            for part in (Part.CURRENT, Part.TARGET, Part.MEMBER)
            for member in MEMBERS
        ]
        ends = [Part.TARGET_EPOCH, Part.GROUP]
        if kind is StreamsGroup:
            ends.append(Part.TOPOLOGY)
        return records + [self.record(type_of[part], group_id, "", None) for part in ends]

    def _group(self, record_type: int) -> dict[str, Any]:
        fields: dict[str, Any] = {"epoch": self.choose.randrange(4)}
        if record_type != 3:
            fields["metadataHash"] = -1
        if record_type == 17:
            fields["validatedTopologyEpoch"] = self.choose.randrange(3)
        return fields

    def _member(self, record_type: int) -> dict[str, Any]:
        choose = self.choose
        fields: dict[str, Any] = {
            "rackId": choose.choice([None, "r"]),
            "clientId": choose.choice(["c", "d"]),
            "clientHost": "/h",
        }
        if record_type != 10:
            fields["rebalanceTimeoutMs"] = REBALANCE_TIMEOUT_MS
            fields["instanceId"] = choose.choice([None, None, "i"])
        if record_type != 19:
            fields["subscribedTopicNames"] = self._names()
        if record_type == 5:
            fields["subscribedTopicRegex"] = choose.choice([None, "", "t.*"])
            # Brokers write null; without the field a member has empty metadata of a classic one.
            if choose.random() < 0.9:
                fields["classicMemberMetadata"] = None
            if choose.random() < 0.2:
                fields["classicMemberMetadata"] = {
                    "sessionTimeoutMs": REBALANCE_TIMEOUT_MS,
                    "supportedProtocols": [{"name": "range", "metadata": b"\x00\x01"}],
                }
        if record_type == 19:
            fields |= {"topologyEpoch": choose.randrange(3), "processId": choose.choice("pq")}
            fields["clientTags"] = [{"key": "k", "value": "v"}] if choose.random() < 0.3 else []
            fields["userEndpoint"] = choose.choice([None, {"host": "h", "port": 65_535}])
        return fields

    def _target(self, kind: type[ModernGroup]) -> dict[str, Any]:
        if kind is StreamsGroup:
            return {
                f"{task_type}Tasks": self._tasks() for task_type in ("active", "standby", "warmup")
            }
        return {"topicPartitions": self._partitions()}

    def _current(self, kind: type[ModernGroup]) -> dict[str, Any]:
        choose = self.choose
        fields: dict[str, Any] = {
            "memberEpoch": choose.randrange(4),
            "previousMemberEpoch": 0,
            "state": choose.choice([*kind.member_states, 9]),
        }
        if kind is StreamsGroup:
            for task_type in ("active", "standby", "warmup"):
                fields[f"{task_type}Tasks"] = self._tasks(epochs=task_type == "active")
                fields[f"{task_type}TasksPendingRevocation"] = self._tasks()
        else:
            fields["assignedPartitions"] = self._partitions()
        if kind is ConsumerGroup:
            fields["partitionsPendingRevocation"] = self._partitions()
        return fields

    def _partition_metadata(self, record_type: int) -> dict[str, Any]:
        topics = [
            {"topicId": topic_id, "topicName": name, "partitions": [0]}
            for topic_id, name in self._some(self.topics)
        ]
        if record_type == 15:
            return {"initializingTopics": [], "initializedTopics": topics, "deletingTopics": []}
        for topic in topics:
            del topic["partitions"]
            topic |= {"numPartitions": 1, "partitionMetadata": []}
        return {"topics": topics}

    def _partitions(self) -> list[dict[str, Any]]:
        topic_ids = [topic_id for topic_id, _ in self.topics] + [UNKNOWN_TOPIC]
        owned = self._some(topic_ids)
        if owned and self.choose.random() < 0.05:
            owned.append(owned[0])
        return [{"topicId": topic_id, "partitions": self._some([0, 1])} for topic_id in owned]

    def _tasks(self, *, epochs: bool = False) -> list[dict[str, Any]]:
        tasks = []
        for subtopology in self._some(_SUBTOPOLOGIES):
            entry: dict[str, Any] = {
                "subtopologyId": subtopology,
                "partitions": self._some([0, 1]),
            }
            if epochs and self.choose.random() < 0.3:
                entry["assignmentEpochs"] = [1] * self.choose.randrange(3)
            tasks.append(entry)
        return tasks

    def _names(self) -> list[str]:
        return self._some(["t", "u"])

    def _some(self, of: Sequence[Any]) -> list[Any]:
        """Often nothing, for assignments that clash are what coordinators refuse."""
        return [choice for choice in of if self.choose.random() < 0.35]


def _subtopology(number: str, topics: list[str]) -> dict[str, Any]:
    return {
        "subtopologyId": number,
        "sourceTopics": topics,
        "sourceTopicRegex": [],
        "stateChangelogTopics": [],
        "repartitionSinkTopics": [],
        "repartitionSourceTopics": [],
        "copartitionGroups": [],
    }
