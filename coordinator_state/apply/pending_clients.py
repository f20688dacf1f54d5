"""The client of each pending offset: the application behind an open transaction.

A commit record has no client. The client of a transactional commit is, in this order:

1. the member with the partition in its assignment, in the group at the record offset of the commit;
2. the client of the newest commit that the same producer has pending in the group;
3. the only member of the group.

Otherwise it is unknown. A pending offset keeps its client after the member has left. Each rule
depends on the log up to the commit and on pending offsets alone. The client is therefore the same
for any micro-batches, and after a restart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.collected import GroupId
from coordinator_state.apply.columns import distinct_keys, numbers
from coordinator_state.apply.outcomes import is_ended
from coordinator_state.insight.group_events import TopicPartition, owners
from coordinator_state.records.record_types import NO_PRODUCER_ID
from coordinator_state.replay.groups import NO_RECORD_OFFSET, Group, GroupMember
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey, OffsetReplay, Semantics

RecordId = tuple[int, int]
"""Log partition and record offset."""

_RECORD_ID = ("log_partition", "record_offset")
_PRODUCER = ["log_partition", "group_id", "producer_id"]


class Client(NamedTuple):
    """The client of a member."""

    client_id: str
    client_host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRecord:
    """A commit of an open transaction, or a tombstone of its group.

    `is_new` is false for an offset that was pending before the micro-batch; `client` is its client.
    """

    key: OffsetKey
    value: CommittedOffset
    is_transactional: bool
    is_tombstone: bool
    is_new: bool
    client: Client | None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> TransactionRecord:
        """Make a record from a commit or tombstone of the micro-batch, or from a pending offset."""
        is_new = "is_tombstone" in row
        is_known = row.get("client_id") is not None
        return cls(
            key=OffsetKey(row["group_id"], row["topic"], row["partition"]),
            value=CommittedOffset.from_row(row),
            is_transactional=row.get("is_transactional", True),
            is_tombstone=row.get("is_tombstone", False),
            is_new=is_new,
            client=Client(row["client_id"], row["client_host"]) if is_known else None,
        )

    @property
    def record_offset(self) -> int:
        """The record offset."""
        return self.value.record_offset

    @property
    def producer_id(self) -> int:
        """The producer id; -1 for a plain tombstone."""
        return NO_PRODUCER_ID if self.value.producer_id is None else self.value.producer_id


OpenTransactions = Mapping[GroupId, Sequence[TransactionRecord]]
"""By group: the records that decide the clients of its new pending offsets."""


def open_transactions(
    offsets: pa.Table, before: pa.Table, markers: pa.Table, semantics: Semantics
) -> OpenTransactions:
    """Find the groups with a new commit in an open transaction, and their records.

    Args:
        offsets: the commits and tombstones of the micro-batch.
        before: the pending offsets before it (`PENDING_OFFSET_ROW`).
        markers: the markers of the micro-batch.
        semantics: the loader's rules.
    """
    is_commit = pc.and_(offsets["is_transactional"], pc.invert(offsets["is_tombstone"]))
    commits = _still_open(offsets.filter(is_commit), markers, semantics)
    found: dict[GroupId, list[TransactionRecord]] = defaultdict(list)
    if commits.num_rows:
        groups = pc.unique(commits["group_id"])
        is_tombstone = pc.and_(offsets["is_tombstone"], pc.is_in(offsets["group_id"], groups))
        tombstones = offsets.filter(is_tombstone)
        stored = _still_open(_of_producers(commits, before), markers, semantics)
        # A tombstone clears one pending commit of a producer at most.
        newest = _newest_of_producers(stored, tombstones.num_rows + 1)
        for rows in (commits, tombstones, newest):
            for row in rows.to_pylist():
                group = row["log_partition"], row["group_id"]
                found[group].append(TransactionRecord.from_row(row))
    return found


def _of_producers(commits: pa.Table, before: pa.Table) -> pa.Table:
    """The pending offsets of the producers and groups of these commits."""
    producers = commits.select(_PRODUCER).group_by(_PRODUCER).aggregate([])
    return before.join(producers, _PRODUCER, join_type="left semi")


def _newest_of_producers(pending: pa.Table, count: int) -> pa.Table:
    """The newest pending offsets of each producer and group, at most `count` of each."""
    producers = distinct_keys(pending.select(_PRODUCER))
    order = np.lexsort((-numbers(pending["record_offset"]), producers))
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = producers[order[1:]] != producers[order[:-1]]
    starts = np.flatnonzero(is_first)
    rank = np.arange(len(order)) - np.repeat(starts, np.diff([*starts, len(order)]))
    return pending.take(order[rank < count])


def _still_open(commits: pa.Table, markers: pa.Table, semantics: Semantics) -> pa.Table:
    return commits.filter(pa.array(~is_ended(commits, markers, semantics)))


@dataclass(slots=True)
class PendingClients:
    """The clients of one group's pending offsets, replayed record by record.

    `found` has the client of each commit by its record offset.
    """

    offsets: OffsetReplay
    found: dict[int, Client | None] = field(default_factory=dict)
    _commits: dict[int, list[tuple[OffsetKey, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """By producer id: the keys and record offsets of its commits, the newest last."""
    _owned: tuple[Group, Mapping[TopicPartition, GroupMember]] | None = None
    """The last group, and the owner of each of its topic partitions."""

    def replay(self, record: TransactionRecord, group: Group) -> None:
        """Replay the next record; `group` is its group at its record offset."""
        if record.is_tombstone:
            self.offsets.replay_tombstone(
                record.key,
                producer_id=record.producer_id,
                is_transactional=record.is_transactional,
            )
        else:
            client = self._client(record, group) if record.is_new else record.client
            self.found[record.record_offset] = client
            self._commits[record.producer_id].append((record.key, record.record_offset))
            self.offsets.replay_commit(record.key, record.value, is_transactional=True)

    def _client(self, record: TransactionRecord, group: Group) -> Client | None:
        if self._owned is None or self._owned[0] is not group:
            self._owned = group, owners(group)
        member = self._owned[1].get((record.key.topic, record.key.partition))
        if member is None:
            client = self.found.get(self._newest_pending(record.producer_id))
            if client is not None or len(group.members) != 1:
                return client
            (member,) = group.members
        return Client(member.client_id, member.client_host)

    def _newest_pending(self, producer_id: int) -> int:
        """The record offset of the newest pending commit of a producer."""
        commits = self._commits[producer_id]
        pending = self.offsets.pending.get(producer_id, {})
        while commits:
            key, record_offset = commits[-1]
            if key in pending and pending[key].record_offset == record_offset:
                return record_offset
            # A tombstone cleared it, for good: each commit is removed once at most.
            commits.pop()
        return NO_RECORD_OFFSET


def with_clients(
    pending: pa.Table, before: pa.Table, found: Mapping[RecordId, Client | None]
) -> pa.Table:
    """Pending offsets with their clients.

    Args:
        pending: the pending offsets after the micro-batch (`PENDING_OFFSET_ROW`).
        before: those before it, with their clients.
        found: the clients of the micro-batch's commits.
    """
    if not pending.num_rows:
        return pending
    clients = dict(zip(_columns(before, _RECORD_ID), _columns(before, Client._fields), strict=True))
    clients.update((at, client or (None, None)) for at, client in found.items())
    rows = [clients.get(at, (None, None)) for at in _columns(pending, _RECORD_ID)]
    for number, name in enumerate(Client._fields):
        index = pending.schema.get_field_index(name)
        values = pa.array([client[number] for client in rows], pa.string())
        pending = pending.set_column(index, pending.schema.field(name), values)
    return pending


def _columns(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in names), strict=True)
