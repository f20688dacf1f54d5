"""Random records of consumer, share and streams groups, for random logs.

Records are drawn in the order in which brokers write them (a member joins, leaves, a group is
deleted) or one at a time, values and tombstones alike, in a world so small that they meet.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_key, encode_value
from coordinator_state.replay.consumer_groups import ConsumerGroup
from coordinator_state.replay.group_replay import MODERN_GROUPS
from coordinator_state.replay.modern_groups import ModernGroup, Part
from coordinator_state.replay.share_groups import ShareGroup
from coordinator_state.replay.streams_groups import StreamsGroup
from coordinator_state.wire.schema import Field

KINDS: tuple[type[ModernGroup], ...] = (ConsumerGroup, ShareGroup, StreamsGroup)
MEMBERS = ("m1", "m2", "m3")
REBALANCE_TIMEOUT_MS = 1_800_000
UNKNOWN_TOPIC = UUID(int=77)
_UNKNOWN_STATE = 9
_SUBTOPOLOGIES = ("0", "1")
_LEAVING = (Part.CURRENT, Part.TARGET, Part.MEMBER)
_CLASSIC_METADATA = {
    "sessionTimeoutMs": REBALANCE_TIMEOUT_MS,
    "supportedProtocols": [{"name": "range", "metadata": b"\x00\x01"}],
}
_CHOICES: Final[dict[str, Sequence[Any]]] = {
    "epoch": range(4),
    "assignmentEpoch": range(4),
    "memberEpoch": range(4),
    "previousMemberEpoch": [0],
    "validatedTopologyEpoch": range(3),
    "topologyEpoch": range(3),
    "metadataHash": [-1],
    "instanceId": [None, None, "i"],
    "rackId": [None, "r"],
    "clientId": "cd",
    "clientHost": ["/h"],
    "rebalanceTimeoutMs": [REBALANCE_TIMEOUT_MS],
    "subscribedTopicRegex": [None, "", "t.*"],
    "classicMemberMetadata": [*[None] * 4, _CLASSIC_METADATA],
    "processId": "pq",
    "clientTags": [[], [], [{"key": "k", "value": "v"}]],
    "userEndpoint": [None, {"host": "h", "port": 65_535}],
    "version": [1],
    "timestamp": [2],
}
"""The values of a field by its name; other fields are of topics, tasks, or have their default."""

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
            return _tombstones(kind, _LEAVING, group_id, [member])
        if number == 2:
            parts = [Part.TARGET_EPOCH, Part.GROUP, *_topology(kind)]
            leave = _tombstones(kind, _LEAVING, group_id, MEMBERS)
            return leave + _tombstones(kind, parts, group_id, [""])
        record_type = choose.choice(list(kind.parts))
        fields = None if choose.random() < 0.25 else self.value(record_type)
        return [self.record(record_type, group_id, member, fields)]

    @staticmethod
    def record(
        record_type: int, group_id: str, member: str, fields: dict[str, Any] | None
    ) -> KeyAndValue:
        """A record with these fields, or a tombstone."""
        kind = RECORD_TYPES[record_type]
        group_field, *others = kind.key_fields
        key = {group_field.name: group_id, **{field.name: member for field in others}}
        return encode_key(kind, key), None if fields is None else encode_value(kind, 0, fields)

    def value(self, record_type: int) -> dict[str, Any]:
        """The fields of a value of this type."""
        member_states = MODERN_GROUPS[record_type].member_states
        fields = {
            field.name: self._field(field, member_states)
            for field in RECORD_TYPES[record_type].value.fields
        }
        # Brokers write null; without the field a member has empty metadata of a classic one.
        if self.choose.random() < 0.1:
            fields.pop("classicMemberMetadata", None)
        return fields

    def _join(self, kind: type[ModernGroup], group_id: str, member: str) -> list[KeyAndValue]:
        epoch = self.choose.randrange(1, 4)
        parts = [Part.MEMBER, Part.GROUP, Part.TARGET, Part.TARGET_EPOCH, Part.CURRENT]
        records = []
        for record_type in _types(kind, [*parts, *_topology(kind)]):
            fields = self.value(record_type)
            for name in ("epoch", "assignmentEpoch", "memberEpoch", "validatedTopologyEpoch"):
                if name in fields:
                    fields[name] = epoch
            if "state" in fields:
                fields["state"] = min(kind.member_states)
            records.append(self.record(record_type, group_id, member, fields))
        return records

    def _field(self, field: Field, member_states: Iterable[int]) -> Any:
        if field.name == "state":
            return self.choose.choice([*member_states, _UNKNOWN_STATE])
        if field.name in _CHOICES:
            return self.choose.choice(_CHOICES[field.name])
        names = {nested.name for nested in field.fields}
        if "topicId" in names:
            return self._topics(names)
        if field.name == "subtopologies":
            return [self._subtopology(field.fields, number) for number in _SUBTOPOLOGIES]
        if "subtopologyId" in names:
            has_epochs = field.name == "activeTasks" and "assignmentEpochs" in names
            return self._tasks(has_epochs=has_epochs)
        return self._some(["t", "u"]) if field.is_array and not names else field.default

    def _topics(self, names: Collection[str]) -> list[dict[str, Any]]:
        """Partitions of topics; a topic that is named is known, and there once."""
        is_named = "topicName" in names
        topics = self._some([*self.topics, *([] if is_named else [(UNKNOWN_TOPIC, "")])])
        if topics and not is_named and self.choose.random() < 0.05:
            topics.append(topics[0])
        entries = [
            {
                **{"topicId": topic_id, "topicName": name, "partitions": self._some([0, 1])},
                **{"numPartitions": 1, "partitionMetadata": []},
            }
            for topic_id, name in topics
        ]
        return [{n: value for n, value in entry.items() if n in names} for entry in entries]

    def _tasks(self, *, has_epochs: bool) -> list[dict[str, Any]]:
        tasks = []
        for subtopology in self._some(_SUBTOPOLOGIES):
            entry = {"subtopologyId": subtopology, "partitions": self._some([0, 1])}
            if has_epochs and self.choose.random() < 0.3:
                entry["assignmentEpochs"] = [1] * self.choose.randrange(3)
            tasks.append(entry)
        return tasks

    def _subtopology(self, fields: Iterable[Field], number: str) -> dict[str, Any]:
        nothing: dict[str, Any] = {field.name: [] for field in fields}
        return {**nothing, "subtopologyId": number, "sourceTopics": self._some(["t", "u"])}

    def _some(self, of: Sequence[Any]) -> list[Any]:
        """Often nothing, for assignments that clash are what coordinators refuse."""
        return [choice for choice in of if self.choose.random() < 0.35]


def _tombstones(
    kind: type[ModernGroup], parts: Iterable[Part], group_id: str, members: Iterable[str]
) -> list[KeyAndValue]:
    types = _types(kind, parts)
    return [ModernRecords.record(number, group_id, m, None) for number in types for m in members]


def _topology(kind: type[ModernGroup]) -> list[Part]:
    return [Part.TOPOLOGY] if kind is StreamsGroup else []


def _types(kind: type[ModernGroup], parts: Iterable[Part]) -> list[int]:
    type_by_part = {part: record_type for record_type, part in kind.parts.items()}
    return [type_by_part[part] for part in parts]
