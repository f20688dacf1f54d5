"""The plan for one group: an offset for each partition, and what must happen first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from coordinator_state.insight.group_status import count_text, moment_text
from coordinator_state.insight.kafka_commands import GROUP_TOOLS, cannot_be_named, reset_commands
from coordinator_state.insight.offset_plan import (
    LogBounds,
    PlannedOffset,
    left_as_it_is,
    planned_offset,
)
from coordinator_state.replay.groups import CLASSIC, EXTERNAL, STREAMS
from coordinator_state.replay.offsets import OffsetKey
from coordinator_state.replay.partitioner import partition_for
from streaming.errors import ConfigurationError
from streaming.kafka.offset_fetch import NO_ERROR
from streaming.kafka.partition_offsets import TopicPartition
from streaming.plans.committed_offsets import Committed, current_offsets, group_types, place_of
from streaming.plans.sampled_logs import SampledLog, recreations, sampled_logs
from streaming.tables.reader import TableReader
from streaming.views.offset_fetch import coordinator_error

OTHER_TOOLS: Final = {**GROUP_TOOLS, EXTERNAL: "the program that keeps its offsets"}
"""The tools for groups that `kafka-consumer-groups.sh` does not reset, by their type."""
_SHOWN: Final = 10
"""The number of clients that a warning names."""


class Client(NamedTuple):
    """The client of a member."""

    client_id: str
    client_host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacles:
    """The facts about a group that a person must deal with before a plan is executed."""

    group_id: str
    members: list[Client]
    pending_producer_ids: list[int]
    is_simple: bool

    @classmethod
    def of(cls, reader: TableReader, group_id: str) -> Obstacles:
        """Find them in a snapshot."""
        members = reader.own("group_members", [*Client._fields], [group_id]).to_pylist()
        pending = reader.own("pending_offsets", ["producer_id"], [group_id])
        groups = reader.own("groups", ["group_type", "protocol_type"], [group_id]).to_pylist()
        return cls(
            group_id=group_id,
            members=sorted(Client(row["client_id"], row["client_host"]) for row in members),
            pending_producer_ids=sorted(set(pending["producer_id"].to_pylist())),
            is_simple=[(row["group_type"], row["protocol_type"]) for row in groups]
            == [(CLASSIC, "")],
        )

    @property
    def warnings(self) -> list[str]:
        """A sentence for each of them."""
        sentences = []
        if self.members:
            clients = [f"{member.client_id} at {member.client_host}" for member in self.members]
            count, more = count_text(len(clients), "member"), len(clients) - _SHOWN
            shown = ", ".join(clients[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
            sentences.append(
                f"{self.group_id} has {count}, and Kafka resets only groups without members: "
                f"stop first {shown}"
            )
        sentences += [
            f"{self.group_id} has pending offsets of producer {producer_id}: a commit of its "
            "transaction would overwrite the plan"
            for producer_id in self.pending_producer_ids
        ]
        if self.is_simple:
            sentences.append(
                f"{self.group_id} is a simple group (assign() without joining): make sure that its "
                "clients have stopped, Kafka does not check that"
            )
        return sentences


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The offset that is asked for in a partition; None leaves the partition as it is.

    `topic_id` is that of the topic for which the offset holds, None if unknown.
    """

    offset: int | None = None
    note: str = ""
    committed_at: datetime | None = None
    topic_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """The planned offsets of a group, sorted by topic and partition.

    `group_type` is None for a group that does not exist yet, and may be of any type. The offsets of
    a share group are start offsets.
    """

    group_id: str
    group_type: str | None
    goal: str
    offsets: list[PlannedOffset]
    obstacles: Obstacles

    @property
    def to_offsets(self) -> dict[OffsetKey, int]:
        """The offsets of the plan file."""
        return {
            OffsetKey(self.group_id, planned.topic, planned.partition): planned.to_offset
            for planned in self.offsets
            if planned.to_offset is not None
        }

    def commands(self, file: str, bootstrap_servers: str | None = None) -> list[str]:
        """The command lines that try and execute the plan file; empty without planned offsets.

        Raises:
            ConfigurationError: no command line can name the group.
        """
        if not self.to_offsets:
            return []
        reason = cannot_be_named(self.group_id)
        if reason:
            raise ConfigurationError(f"Kafka's tool cannot reset '{self.group_id}': {reason}")
        ((dry_run, execute),) = reset_commands(
            [self.group_id], file, bootstrap_servers, self.group_type
        )
        return [dry_run, execute]

    @property
    def warnings(self) -> list[str]:
        """Sentences about consequences that people may not expect."""
        sentences = []
        if skipped := sum(planned.records_skipped or 0 for planned in self.offsets):
            count = count_text(skipped, "record")
            sentences.append(
                f"the plan moves {self.group_id} forward: the group would never read {count}"
            )
        if self.group_type == STREAMS:
            sentences.append(
                f"the state stores of {self.group_id} keep their state, unless you add "
                "--delete-all-internal-topics to the command"
            )
        return sentences

    @property
    def summary(self) -> str:
        """The plan in one line."""
        left = sum(planned.to_offset is None for planned in self.offsets)
        counts = [
            f"{self.group_id}, {self.goal}: {count_text(len(self.offsets) - left, 'partition')}",
            *(
                count_text(
                    sum(getattr(planned, f"records_{name}") or 0 for planned in self.offsets),
                    "record",
                )
                + f" {name}"
                for name in ("replayed", "skipped", "deleted")
            ),
        ]
        if left:
            counts.append(f"{count_text(left, 'partition')} unchanged")
        return ", ".join(counts)


def plan_for_group(
    reader: TableReader,
    group_id: str,
    goal: str,
    wanted: Mapping[OffsetKey, Wanted],
    new_type: str | None = None,
) -> GroupPlan:
    """Plan these partitions of a group.

    Args:
        reader: the newest snapshot.
        group_id: the group, which need not exist.
        goal: a phrase for people.
        wanted: an entry for each partition of the plan.
        new_type: the type of a group that does not exist.

    Raises:
        ConfigurationError: no tool of Kafka can reset the group, because it is external, or the
            log partition of the group is not loaded.
    """
    require_loaded(reader, group_id)
    group_type = group_types(reader, [group_id]).get(group_id, new_type)
    if group_type == EXTERNAL:
        raise ConfigurationError(
            f"{group_id} is of type {group_type}: reset it with {OTHER_TOOLS[group_type]}"
        )
    current = current_offsets(reader, group_id)
    logs = sampled_logs(reader, map(place_of, wanted), reader.moment)
    again = recreations(reader, map(place_of, wanted))
    return GroupPlan(
        group_id=group_id,
        group_type=group_type,
        goal=goal,
        offsets=[
            _planned(reader, key, wanted[key], current.get(key), logs, again)
            for key in sorted(wanted)
        ],
        obstacles=Obstacles.of(reader, group_id),
    )


def require_loaded(reader: TableReader, group_id: str) -> None:
    """Refuse a group whose log partition is not loaded: its offsets are incomplete.

    Raises:
        ConfigurationError: it is not loaded.
    """
    log_partition = partition_for(group_id, reader.log_partitions)
    error = coordinator_error(reader, log_partition)
    if error != NO_ERROR:
        raise ConfigurationError(
            f"the offsets of {group_id} are unknown: its log partition {log_partition} "
            f"answers {error}"
        )


def _planned(
    reader: TableReader,
    key: OffsetKey,
    wanted: Wanted,
    current: Committed | None,
    logs: Mapping[TopicPartition, SampledLog | None],
    recreations_by_place: Mapping[TopicPartition, datetime],
) -> PlannedOffset:
    place = place_of(key)
    log, recreated_at = logs.get(place), recreations_by_place.get(place)
    from_offset = None if current is None else current.offset
    reason = wanted.note if wanted.offset is None else ""
    if place in logs and log is None:
        reason = "the cluster has no such topic"
    elif log is not None and _is_of_deleted_topic(reader, wanted, log, recreated_at):
        when = "" if recreated_at is None else f" at {moment_text(recreated_at, reader.moment)}"
        reason = f"the topic was deleted and created again{when}"
    if reason or wanted.offset is None:
        return left_as_it_is(key, from_offset, f"unchanged: {reason}")
    return planned_offset(
        key,
        from_offset=from_offset,
        wanted_offset=wanted.offset,
        log=None if log is None else _bounds(log, wanted, current),
        note=wanted.note,
    )


def _is_of_deleted_topic(
    reader: TableReader, wanted: Wanted, log: SampledLog, recreated_at: datetime | None
) -> bool:
    is_before = (
        wanted.committed_at is not None
        and recreated_at is not None
        and wanted.committed_at - reader.clock_skew < recreated_at
    )
    return is_before or wanted.topic_id not in (None, log.topic_id)


def _bounds(log: SampledLog, wanted: Wanted, current: Committed | None) -> LogBounds:
    """The bounds of the log; an offset that was committed after the sample is inside the log."""
    later = [
        offset
        for offset, committed_at in (
            (wanted.offset, wanted.committed_at),
            *([] if current is None else [(current.offset, current.commit_timestamp)]),
        )
        if offset is not None and committed_at is not None and committed_at > log.sampled_at
    ]
    return LogBounds(log.bounds.log_start_offset, max([log.bounds.log_end_offset, *later]))
