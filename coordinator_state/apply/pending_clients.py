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
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.collected import GroupId
from coordinator_state.apply.columns import (
    NOWHERE,
    Integers,
    columns_of,
    distinct_keys,
    numbers,
    positions,
    with_columns,
)
from coordinator_state.apply.outcomes import is_ended
from coordinator_state.apply.rows import PENDING_OFFSET_ROW
from coordinator_state.insight.group_events import TopicPartition, owners
from coordinator_state.records.record_types import NO_PRODUCER_ID
from coordinator_state.replay.groups import NO_RECORD_OFFSET, Group, GroupMember
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey, OffsetReplay, Semantics

_RECORD_ID: Final = ["log_partition", "record_offset"]
_GROUP: Final = ["log_partition", "group_id"]
_PRODUCER: Final = [*_GROUP, "producer_id"]
_KEY: Final = [*_GROUP, "topic", "partition"]


class Client(NamedTuple):
    """The client of a member."""

    client_id: str
    client_host: str


_CLIENT: Final = list(Client._fields)
CLIENT_OF_COMMIT: Final = pa.schema([PENDING_OFFSET_ROW.field(n) for n in (*_RECORD_ID, *_CLIENT)])
"""The client of a commit: one row for each commit, with nulls if the client is unknown."""

_COMMIT: Final = pa.schema(
    [PENDING_OFFSET_ROW.field(name) for name in (*_KEY, "producer_id", "record_offset")]
)
_CLIENT_OF_KEY: Final = pa.schema([PENDING_OFFSET_ROW.field(name) for name in (*_KEY, *_CLIENT)])
_CLIENT_OF_GROUP: Final = pa.schema(
    [PENDING_OFFSET_ROW.field(name) for name in (*_GROUP, *_CLIENT)]
)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransactions:
    """The records that decide the clients of new pending offsets.

    Attributes:
        commits: the commits of the micro-batch whose transaction is open after it.
        tombstones: the tombstones of the micro-batch in the groups of these commits.
        pending: earlier pending offsets of the same producers and groups, with their clients
            (`PENDING_OFFSET_ROW`): the newest ones, as many as the tombstones can clear, and
            another one.
    """

    commits: pa.Table
    tombstones: pa.Table
    pending: pa.Table

    def by_group(self, groups: Collection[GroupId]) -> dict[GroupId, list[TransactionRecord]]:
        """The records of these groups, for a replay record by record (`PendingClients`)."""
        records: dict[GroupId, list[TransactionRecord]] = defaultdict(list)
        if not groups:
            return records
        for rows in (self.commits, self.tombstones, self.pending):
            for row in _of_groups(rows, groups).to_pylist():
                group = row["log_partition"], row["group_id"]
                records[group].append(TransactionRecord.from_row(row))
        return records

    def clients(self, groups: Mapping[GroupId, Group]) -> pa.Table:
        """The clients of the commits of these groups (`CLIENT_OF_COMMIT`).

        The micro-batch has neither a group record nor a tombstone of these groups. The owners are
        therefore the same for all commits, and the newest pending commit of a producer is the
        commit before.
        """
        if not groups:
            return CLIENT_OF_COMMIT.empty_table()
        commits, pending = (_of_groups(rows, groups) for rows in (self.commits, self.pending))
        owned, single = _clients_of_keys(groups), _clients_of_groups(groups)
        rows = pa.concat_tables([columns_of(rows, _COMMIT) for rows in (commits, pending)])
        clients = pa.concat_tables([rows.select(_CLIENT) for rows in (owned, single, pending)])
        client = positions(rows.select(_KEY), owned.select(_KEY))
        pending_places = np.arange(clients.num_rows - pending.num_rows, clients.num_rows)
        is_known = pending["client_id"].is_valid().to_numpy()
        client[commits.num_rows :] = np.where(is_known, pending_places, NOWHERE)
        producers = distinct_keys(rows.select(_PRODUCER))
        order = np.lexsort((numbers(rows["record_offset"]), producers))
        client[order] = _filled(client[order], producers[order])
        single_places = positions(rows.select(_GROUP), single.select(_GROUP))
        is_single = (client == NOWHERE) & (single_places != NOWHERE)
        client[is_single] = owned.num_rows + single_places[is_single]
        commit_clients = _taken(clients, client[: commits.num_rows])
        return columns_of(with_columns(commits, commit_clients), CLIENT_OF_COMMIT)


def open_transactions(
    offsets: pa.Table, before: pa.Table, markers: pa.Table, semantics: Semantics
) -> OpenTransactions:
    """Find the new commits in open transactions, and the records that decide their clients.

    Args:
        offsets: the commits and tombstones of the micro-batch.
        before: the pending offsets before it (`PENDING_OFFSET_ROW`).
        markers: the markers of the micro-batch.
        semantics: the loader's rules.
    """
    is_commit = pc.and_(offsets["is_transactional"], pc.invert(offsets["is_tombstone"]))
    commits = _still_open(offsets.filter(is_commit), markers, semantics)
    if not commits.num_rows:
        return OpenTransactions(
            commits=commits, tombstones=offsets.slice(length=0), pending=before.slice(length=0)
        )
    groups = pc.unique(commits["group_id"])
    is_tombstone = pc.and_(offsets["is_tombstone"], pc.is_in(offsets["group_id"], groups))
    tombstones = offsets.filter(is_tombstone)
    pending = _still_open(_of_producers(commits, before), markers, semantics)
    # A tombstone clears one pending commit of a producer at most.
    newest = _newest_of_producers(pending, tombstones.num_rows + 1)
    return OpenTransactions(commits=commits, tombstones=tombstones, pending=newest)


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

    `clients` has the client of each commit by its record offset.
    """

    offsets: OffsetReplay
    clients: dict[int, Client | None] = field(default_factory=dict)
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
            self.clients[record.record_offset] = client
            self._commits[record.producer_id].append((record.key, record.record_offset))
            self.offsets.replay_commit(record.key, record.value, is_transactional=True)

    def _client(self, record: TransactionRecord, group: Group) -> Client | None:
        if self._owned is None or self._owned[0] is not group:
            self._owned = group, owners(group)
        member = self._owned[1].get((record.key.topic, record.key.partition))
        if member is None:
            client = self.clients.get(self._newest_pending(record.producer_id))
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


def replayed_clients(replays: Iterable[tuple[GroupId, PendingClients]]) -> pa.Table:
    """The clients that were found record by record, by group (`CLIENT_OF_COMMIT`)."""
    rows = [
        (log_partition, record_offset, *(client or (None, None)))
        for (log_partition, _), replay in replays
        for record_offset, client in replay.clients.items()
    ]
    return _table_of(rows, CLIENT_OF_COMMIT)


def with_clients(pending: pa.Table, before: pa.Table, clients: pa.Table) -> pa.Table:
    """Pending offsets with their clients.

    Args:
        pending: the pending offsets after the micro-batch (`PENDING_OFFSET_ROW`).
        before: those before it, with their clients.
        clients: the clients of the micro-batch's commits (`CLIENT_OF_COMMIT`).
    """
    if not pending.num_rows:
        return pending
    known = pa.concat_tables([before.select(CLIENT_OF_COMMIT.names), clients])
    rows = positions(pending.select(_RECORD_ID), known.select(_RECORD_ID))
    return with_columns(pending, _taken(known.select(_CLIENT), rows))


def _of_groups(rows: pa.Table, groups: Iterable[GroupId]) -> pa.Table:
    ids = [dict(zip(_GROUP, group, strict=True)) for group in groups]
    table = pa.Table.from_pylist(ids, schema=pa.schema([rows.schema.field(n) for n in _GROUP]))
    return rows.join(table, _GROUP, join_type="left semi")


def _clients_of_keys(groups: Mapping[GroupId, Group]) -> pa.Table:
    """The client of the owner of each topic partition of the groups."""
    rows = [
        (*group_id, *topic_partition, member.client_id, member.client_host)
        for group_id, group in groups.items()
        for topic_partition, member in owners(group).items()
        if topic_partition[0] is not None
    ]
    return _table_of(rows, _CLIENT_OF_KEY)


def _clients_of_groups(groups: Mapping[GroupId, Group]) -> pa.Table:
    """The client of the only member of each group that has one member."""
    rows = [
        (*group_id, member.client_id, member.client_host)
        for group_id, group in groups.items()
        if len(group.members) == 1
        for member in group.members
    ]
    return _table_of(rows, _CLIENT_OF_GROUP)


def _table_of(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema
    )


def _filled(client: Integers, producers: Integers) -> Integers:
    """The last known client of the same producer; both are in the order of the producers."""
    numbered = np.arange(len(client))
    known = np.maximum.accumulate(np.where(client == NOWHERE, NOWHERE, numbered))
    is_own = (known != NOWHERE) & (producers[known] == producers)
    return np.where(is_own, client[known], NOWHERE)


def _taken(rows: pa.Table, at: Integers) -> dict[str, pa.ChunkedArray]:
    """The columns of the rows at these positions, null for `NOWHERE`."""
    taken = rows.take(pa.array(at, mask=at == NOWHERE))
    return dict(zip(taken.column_names, taken.columns, strict=True))
