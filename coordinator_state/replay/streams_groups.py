"""Replay of streams groups (KIP-1071).

Their members own tasks, which are partitions of a subtopology, instead of topic partitions.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/streams/
StreamsGroup.java, StreamsGroupMember.java, StreamsTopology.java and TasksTupleWithEpochs.java at
4.4.0; TasksTuple.java at 4.1.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from coordinator_state.replay.groups import EMPTY, NOT_READY, STREAMS, AssignedTask
from coordinator_state.replay.modern_groups import (
    ModernGroup,
    ModernMember,
    Part,
    Warn,
    distinct_entries,
    warn_of_repeated,
)
from coordinator_state.wire.struct_reader import Fields

_TASK_LISTS = {"active": "activeTasks", "standby": "standbyTasks", "warmup": "warmupTasks"}
_CURRENT_LISTS = [
    *_TASK_LISTS.values(),
    *(f"{tasks}PendingRevocation" for tasks in _TASK_LISTS.values()),
]


@dataclass(kw_only=True)
class StreamsGroup(ModernGroup):
    """A streams group.

    `validated_topology_epoch` is the epoch of the topology whose topics the coordinator found. The
    group is NotReady if it differs from the topology's epoch.
    """

    group_type: ClassVar[str] = STREAMS
    title: ClassVar[str] = "Streams"
    parts: ClassVar[Mapping[int, Part]] = {
        17: Part.GROUP,
        19: Part.MEMBER,
        20: Part.TARGET_EPOCH,
        21: Part.TARGET,
        22: Part.CURRENT,
        23: Part.TOPOLOGY,
    }
    member_states: ClassVar[Mapping[int, str]] = {
        1: "STABLE",
        2: "UNREVOKED_TASKS",
        3: "UNRELEASED_TASKS",
    }
    first_epoch: ClassVar[int | None] = None
    first_state: ClassVar[str | None] = None
    is_kept_by_targets: ClassVar[bool] = False

    validated_topology_epoch: int = 0
    topology: Fields | None = None

    @property
    def state(self) -> str:
        """The group's state, as `maybeUpdateGroupState` derives it."""
        if not self.members:
            return EMPTY
        if not self.release.validates_topologies or self.topology is None:
            return NOT_READY
        if self.topology["epoch"] != self.validated_topology_epoch:
            return NOT_READY
        return super().state

    def _subscribed_topics(self) -> tuple[str, ...]:
        if self.topology is None or not self.members:
            return ()
        topics: set[str] = set()
        for subtopology in self.topology["subtopologies"]:
            topics.update(subtopology["sourceTopics"])
            topics.update(topic["name"] for topic in subtopology["repartitionSourceTopics"])
        return tuple(sorted(topics))

    def _member_fields(
        self, member: ModernMember, _metadata: Fields, _names: Mapping[str, str]
    ) -> Fields:
        return {
            "tasks": _tasks(member.current or {}),
            "target_tasks": _tasks(self.targets.get(member.member_id, {})),
        }

    def _replay_group(self, value: Fields | None, warn: Warn) -> None:
        if value is not None:
            warn_of_repeated((entry["key"] for entry in value["lastAssignmentConfigs"] or ()), warn)
            self.validated_topology_epoch = value["validatedTopologyEpoch"]
        super()._replay_group(value, warn)

    def _replay_target(self, member_id: str, value: Fields | None, warn: Warn) -> None:
        if value is None:
            self.targets.pop(member_id, None)
            return
        for tasks in _TASK_LISTS.values():
            warn_of_repeated((entry["subtopologyId"] for entry in value[tasks]), warn)
        self.targets[member_id] = value

    def _replay_member(
        self, member_id: str, value: Fields | None, record_offset: int, warn: Warn
    ) -> None:
        if value is not None:
            warn_of_repeated((tag["key"] for tag in value["clientTags"]), warn)
        super()._replay_member(member_id, value, record_offset, warn)

    def _read_current(self, value: Fields, warn: Warn) -> Fields:
        if self.release.refuses_task_epochs:
            for entry in (*value["activeTasks"], *value["activeTasksPendingRevocation"]):
                partitions, epochs = entry["partitions"], entry["assignmentEpochs"]
                if epochs and len(epochs) != len(partitions):
                    warn(
                        "Assignment epochs must be provided for all partitions. Subtopology "
                        f"{entry['subtopologyId']} has {len(partitions)} partitions but "
                        f"{len(epochs)} epochs"
                    )
        keeps_last = self.release.keeps_last_tasks
        return distinct_entries(
            value, _CURRENT_LISTS, "subtopologyId", keeps_last=keeps_last, warn=warn
        )

    def _replay_other(self, _part: Part, _name: str, value: Fields | None, warn: Warn) -> None:
        if value is not None:
            subtopologies = value["subtopologies"]
            warn_of_repeated((entry["subtopologyId"] for entry in subtopologies), warn)
        self.topology = value


def _tasks(lists: Mapping[str, list[Fields]]) -> tuple[AssignedTask, ...]:
    tasks = {
        AssignedTask(
            task_type=task_type, subtopology_id=entry["subtopologyId"], partition=partition
        )
        for task_type, name in _TASK_LISTS.items()
        for entry in lists.get(name, ())
        for partition in entry["partitions"]
    }
    return tuple(sorted(tasks))
