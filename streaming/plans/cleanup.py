"""Cleanups: groups that are dead, offsets of deleted topics, and orphans.

A broker deletes the offsets of a topic together with the topic. They survive if their coordinator
was away at that moment. A broker then refuses to delete them one by one, because it does not know
the topic.

Source: core/src/main/scala/kafka/server/KafkaApis.scala (`handleOffsetDeleteRequest`) at 3.9.1.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final, TypeAlias

from coordinator_state.insight.group_status import count_text
from coordinator_state.insight.kafka_commands import (
    cannot_be_named,
    delete_group_command,
    delete_offsets_command,
)
from coordinator_state.replay.partitioner import partition_for
from streaming.lag.freshness import Freshness
from streaming.plans.committed_offsets import committed_offsets, place_of
from streaming.plans.group_plan import OTHER_TOOLS, Client
from streaming.plans.sampled_logs import sampled_logs
from streaming.tables.filters import of_groups
from streaming.tables.reader import TableReader
from streaming.views.snapshot import Snapshot

GroupPlace: TypeAlias = tuple[int, str]
"""A log partition and a group id: a group may also have rows in an old log partition."""

_PLACE: Final = ["log_partition", "group_id"]
_TIMES: Final = {
    "group_offsets": "commit_timestamp",
    "pending_offsets": "commit_timestamp",
    "coordinator_records": "record_timestamp",
    "groups": "state_timestamp",
}
DEFAULT_UNUSED_FOR: Final = timedelta(days=7)


class Kind(str, Enum):
    """The kinds of leftovers."""

    GROUP = "group"
    """A group without members and activity."""
    OFFSETS = "offsets"
    """Offsets of a topic that was deleted, or deleted and created again."""
    ORPHAN = "orphan"
    """A group in an old log partition, after `__consumer_offsets` got more of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Something to delete, with the command that deletes it, or the reason why there is no command.

    `offsets` counts committed offsets. `client_id` and `client_host` are those of the last known
    member. `expires_at` is when the coordinator deletes the last of the offsets by itself, None if
    never.
    """

    kind: str
    group_id: str
    topic: str | None = None
    log_partition: int
    offsets: int
    last_activity: datetime | None
    client_id: str | None = None
    client_host: str | None = None
    expires_at: datetime | None = None
    reason: str = ""
    command: str | None = None


def cleanup(
    reader: TableReader,
    unused_for: timedelta = DEFAULT_UNUSED_FOR,
    bootstrap_servers: str | None = None,
) -> list[Leftover]:
    """Find what can go, sorted by kind, group and topic.

    A group is dead if it has no members, and if its last activity was `unused_for` before the last
    write of the tables. No command is for a group with members or with a pending offset.
    """
    facts = _Facts.of(reader.of_kafka(), bootstrap_servers)
    dead = list(_dead_groups(facts, unused_for))
    deleted = {row.group_id for row in dead if row.command is not None}
    deleted_topics = [row for row in _deleted_topics(facts) if row.group_id not in deleted]
    leftovers = [*dead, *deleted_topics, *_orphans(facts)]
    order = [kind.value for kind in Kind]
    leftovers.sort(key=lambda row: (order.index(row.kind), row.group_id, row.topic or ""))
    clients = _last_clients(reader, {row.group_id for row in leftovers})
    return [
        replace(row, **clients[row.group_id]._asdict()) if row.group_id in clients else row
        for row in leftovers
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """Facts about all groups; `offsets` has the offsets of each group in each log partition."""

    reader: TableReader
    bootstrap_servers: str | None
    activity: dict[GroupPlace, datetime | None]
    groups: dict[str, dict[str, Any]]
    pending: set[str]
    offsets: dict[GroupPlace, list[dict[str, Any]]]

    @classmethod
    def of(cls, reader: TableReader, bootstrap_servers: str | None) -> _Facts:
        groups = reader.own("groups", ["group_type", "member_count"]).to_pylist()
        offsets = defaultdict(list)
        for row in Snapshot(reader).expiring_offsets().to_pylist():
            offsets[row["log_partition"], row["group_id"]].append(row)
        return cls(
            reader=reader,
            bootstrap_servers=bootstrap_servers,
            activity=_last_activity(reader),
            groups={row["group_id"]: row for row in groups},
            pending=set(reader.own("pending_offsets", [])["group_id"].to_pylist()),
            offsets=offsets,
        )

    def leftover(self, kind: Kind, place: GroupPlace, rows: list[dict[str, Any]]) -> Leftover:
        """A leftover with these offsets, as yet without reason and command."""
        expiries = [row["expires_at"] for row in rows]
        log_partition, group_id = place
        return Leftover(
            kind=kind.value,
            group_id=group_id,
            log_partition=log_partition,
            offsets=len(rows),
            last_activity=self.activity.get(place),
            expires_at=None if None in expiries else max(expiries, default=None),
        )

    def place(self, group_id: str) -> GroupPlace:
        return partition_for(group_id, self.reader.log_partitions), group_id

    def kept_because(self, group_id: str) -> str:
        """The reason why a group must not, or cannot, be deleted; empty if it can."""
        group = self.groups[group_id]
        if group["member_count"]:
            return f"the group has {count_text(group['member_count'], 'member')}"
        if group_id in self.pending:
            return "the group has a pending offset of an open transaction"
        if group["group_type"] in OTHER_TOOLS:
            return (
                f"a {group['group_type']} group: delete it with {OTHER_TOOLS[group['group_type']]}"
            )
        return cannot_be_named(group_id)


def _dead_groups(facts: _Facts, unused_for: timedelta) -> Iterator[Leftover]:
    moment = facts.reader.moment
    written_at = min(Freshness.of(facts.reader).written_at or moment, moment)
    for group_id, group in facts.groups.items():
        place = facts.place(group_id)
        last = facts.activity.get(place)
        if group["member_count"] or last is None or last > written_at - unused_for:
            continue
        row = facts.leftover(Kind.GROUP, place, facts.offsets.get(place, []))
        reason = facts.kept_because(group_id)
        command = None if reason else delete_group_command(group_id, facts.bootstrap_servers)
        yield replace(row, reason=reason, command=command)


def _deleted_topics(facts: _Facts) -> Iterator[Leftover]:
    committed = committed_offsets(facts.reader)
    logs = sampled_logs(facts.reader, map(place_of, committed), facts.reader.moment)
    gone: dict[tuple[str, str], set[int]] = defaultdict(set)
    recreated: dict[tuple[str, str], set[int]] = defaultdict(set)
    for key, commit in committed.items():
        log = logs.get(place_of(key))
        if log is not None and commit.topic_id not in (None, log.topic_id):
            recreated[key.group_id, key.topic].add(key.partition)
        elif log is None and place_of(key) in logs:
            gone[key.group_id, key.topic].add(key.partition)
    left = Counter(key.group_id for key in committed)
    left.subtract(group_id for (group_id, _), partitions in gone.items() for _ in partitions)
    for (group_id, topic), partitions in gone.items():
        row = _topic_leftover(facts, group_id, topic, partitions)
        reason = facts.kept_because(group_id)
        if not reason and left[group_id]:
            reason = "brokers do not delete offsets of a topic that they do not have"
        command = None if reason else delete_group_command(group_id, facts.bootstrap_servers)
        yield replace(row, reason=reason or "all topics of the group are deleted", command=command)
    for (group_id, topic), partitions in recreated.items():
        row = _topic_leftover(facts, group_id, topic, partitions)
        reason = facts.kept_because(group_id)
        servers = facts.bootstrap_servers
        command = delete_offsets_command(group_id, topic, partitions, servers)
        yield replace(
            row,
            reason=reason or "the topic was deleted and created again",
            command=None if reason else command,
        )


def _topic_leftover(facts: _Facts, group_id: str, topic: str, partitions: set[int]) -> Leftover:
    place = facts.place(group_id)
    rows = [
        row
        for row in facts.offsets[place]
        if row["topic"] == topic and row["partition"] in partitions
    ]
    return replace(facts.leftover(Kind.OFFSETS, place, rows), topic=topic)


def _orphans(facts: _Facts) -> Iterator[Leftover]:
    for place in {*facts.activity, *facts.offsets}:
        log_partition, group_id = place
        own, _ = facts.place(group_id)
        if log_partition != own:
            yield replace(
                facts.leftover(Kind.ORPHAN, place, facts.offsets.get(place, [])),
                reason=f"no tool reaches it: Kafka looks for the group in log partition {own}",
            )


def _last_activity(reader: TableReader) -> dict[GroupPlace, datetime | None]:
    """The time of the last commit or group record of each group, None if no time is known."""
    activity_by_place: dict[GroupPlace, datetime | None] = {}
    for table, time in _TIMES.items():
        rows = reader.read(table, [*_PLACE, time]).group_by(_PLACE).aggregate([(time, "max")])
        for row in rows.to_pylist():
            place = row["log_partition"], row["group_id"]
            times = [
                moment
                for moment in (activity_by_place.get(place), row[f"{time}_max"])
                if moment is not None
            ]
            activity_by_place[place] = max(times, default=None)
    return activity_by_place


def _last_clients(reader: TableReader, group_ids: Collection[str]) -> dict[str, Client]:
    """The client of a member of each group, or else of the last event that names a client."""
    columns = ["group_id", *Client._fields]
    events = reader.read("group_events", [*columns, "record_timestamp"], of_groups(group_ids))
    members = reader.own("group_members", columns, group_ids)
    rows = [*events.sort_by("record_timestamp").to_pylist(), *members.to_pylist()]
    return {
        row["group_id"]: Client(row["client_id"], row["client_host"])
        for row in rows
        if row["client_id"] is not None
    }
