"""Clients of pending offsets: the columns of a micro-batch against a replay record by record."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.apply.collected import GroupId
from coordinator_state.apply.pending_clients import (
    CLIENT_OF_COMMIT,
    OpenTransactions,
    PendingClients,
    replayed_clients,
)
from coordinator_state.apply.rows import PENDING_OFFSET_ROW
from coordinator_state.replay.groups import AssignedPartition, Group, GroupMember, simple_group
from coordinator_state.replay.offsets import OffsetReplay, Semantics
from tests.support.logs.log_rows import NOW_MS, Row

GROUPS: Final = ((0, "a"), (0, "b"), (1, "a"))
TOPIC_PARTITIONS: Final = (("t", 0), ("t", 1), ("u", 0))
PRODUCER_IDS: Final = (7, 8)
ASSIGNMENTS: Final = st.lists(
    st.lists(st.sampled_from([*TOPIC_PARTITIONS, (None, 1)]), max_size=2), max_size=2
)
COMMITS: Final = st.tuples(
    st.sampled_from(GROUPS), st.sampled_from(PRODUCER_IDS), st.sampled_from(TOPIC_PARTITIONS)
)
NEW_COLUMNS: Final = [
    pa.field("is_transactional", pa.bool_()),
    pa.field("is_tombstone", pa.bool_()),
]

Commit = tuple[GroupId, int, tuple[str, int]]


@given(
    assignments=st.tuples(*[ASSIGNMENTS] * len(GROUPS)),
    clients_before=st.dictionaries(
        st.tuples(st.sampled_from(GROUPS), st.sampled_from(PRODUCER_IDS)),
        st.sampled_from([None, "left"]),
    ),
    commits=st.lists(COMMITS, max_size=8),
)
def test_columns_give_the_clients_of_a_replay(
    assignments: tuple[list[list[tuple[str | None, int]]], ...],
    clients_before: dict[tuple[GroupId, int], str | None],
    commits: list[Commit],
) -> None:
    """Of groups with any members, which a producer may have committed for before."""
    groups = dict(zip(GROUPS, map(_group, GROUPS, assignments), strict=True))
    pending = [
        _row(number, (*place, ("t", 2))) | {"client_id": client, "client_host": client and "/host"}
        for number, (place, client) in enumerate(clients_before.items())
    ]
    new = [
        _row(len(pending) + number, commit) | {"is_transactional": True, "is_tombstone": False}
        for number, commit in enumerate(commits)
    ]
    new_schema = pa.schema([*PENDING_OFFSET_ROW, *NEW_COLUMNS])
    transactions = OpenTransactions(
        commits=pa.Table.from_pylist(new, schema=new_schema).drop_columns(
            ["client_id", "client_host"]
        ),
        tombstones=new_schema.empty_table(),
        pending=pa.Table.from_pylist(pending, schema=PENDING_OFFSET_ROW),
    )
    clients = transactions.clients(groups)

    assert clients.schema == CLIENT_OF_COMMIT
    replays = []
    for group, records in transactions.by_group(GROUPS).items():
        replay = PendingClients(OffsetReplay(Semantics.COORDINATOR))
        for record in sorted(records, key=lambda record: record.record_offset):
            replay.replay(record, groups[group])
        replays.append((group, replay))
    expected = replayed_clients(replays).to_pylist()
    new_clients = [row for row in expected if row["record_offset"] >= len(pending)]
    assert sorted(map(_values, clients.to_pylist())) == sorted(map(_values, new_clients))
    assert len(new_clients) == len(commits)


def _group(group: GroupId, assignments: list[list[tuple[str | None, int]]]) -> Group:
    members = tuple(
        GroupMember(
            member_id=str(number),
            client_id=f"{group} {number}",
            client_host="/host",
            assignment=tuple(
                AssignedPartition(topic=topic, partition=partition) for topic, partition in assigned
            ),
        )
        for number, assigned in enumerate(assignments)
    )
    return replace(simple_group(group[1]), members=members)


def _row(record_offset: int, commit: Commit) -> Row:
    (log_partition, group_id), producer_id, (topic, partition) = commit
    return {
        "log_partition": log_partition,
        "group_id": group_id,
        "producer_id": producer_id,
        "topic": topic,
        "partition": partition,
        "record_offset": record_offset,
        "producer_epoch": 0,
        "committed_offset": 1,
        "metadata": "",
        "commit_timestamp_ms": NOW_MS,
    }


def _values(row: Row) -> list[str]:
    """The values of a row, in an order of their own: a client may be null."""
    return [repr(row[name]) for name in CLIENT_OF_COMMIT.names]
