"""The client of each pending offset: the application behind an open transaction.

A commit record has no client, and no broker answers with one. The client of a transactional commit
is the member with the partition in its assignment, in the group at the record offset of the commit.
Otherwise it is unknown. A pending offset keeps its client, also after the member has left. So the
client depends on the log up to the commit only: it is the same for any micro-batches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import pyarrow as pa

from coordinator_state.apply.collected import GroupId
from coordinator_state.apply.columns import NOWHERE, positions, with_columns
from coordinator_state.apply.rows import PENDING_OFFSET_ROW

_COMMIT_ID: Final = ["log_partition", "record_offset"]
_CLIENT: Final = ["client_id", "client_host"]
_CLIENT_OF_COMMIT: Final = pa.schema(
    [PENDING_OFFSET_ROW.field(name) for name in (*_COMMIT_ID, *_CLIENT)]
)


class PendingCommit(NamedTuple):
    """A transactional commit whose transaction is still open after the micro-batch."""

    record_offset: int
    topic: str
    partition: int


Client = tuple[str | None, str | None]
"""Client id and client host."""


def new_commits(pending: pa.Table, before: pa.Table) -> Mapping[GroupId, list[PendingCommit]]:
    """The pending offsets that were not pending before the micro-batch, by group.

    Both tables are `PENDING_OFFSET_ROW`.
    """
    commits: dict[GroupId, list[PendingCommit]] = defaultdict(list)
    if pending.num_rows:
        is_new = positions(pending.select(_COMMIT_ID), before.select(_COMMIT_ID)) == NOWHERE
        names = ["log_partition", "group_id", *PendingCommit._fields]
        columns = pending.filter(pa.array(is_new)).select(names).columns
        for log_partition, group_id, *commit in zip(
            *(column.to_pylist() for column in columns), strict=True
        ):
            commits[log_partition, group_id].append(PendingCommit(*commit))
    return commits


def with_clients(
    pending: pa.Table, before: pa.Table, clients: Iterable[tuple[int, int, Client]]
) -> pa.Table:
    """Pending offsets with their clients.

    Args:
        pending: the pending offsets after the micro-batch (`PENDING_OFFSET_ROW`).
        before: those before it, with their clients.
        clients: log partition, record offset and client of each new one.
    """
    if not pending.num_rows:
        return pending
    rows = [(log_partition, offset, *client) for log_partition, offset, client in clients]
    columns = zip(*rows, strict=True) if rows else [()] * len(_CLIENT_OF_COMMIT)
    new = pa.table(list(map(pa.array, columns, _CLIENT_OF_COMMIT.types)), schema=_CLIENT_OF_COMMIT)
    known = pa.concat_tables([before.select(_CLIENT_OF_COMMIT.names), new])
    place = positions(pending.select(_COMMIT_ID), known.select(_COMMIT_ID))
    taken = known.select(_CLIENT).take(pa.array(place, mask=place == NOWHERE))
    return with_columns(pending, dict(zip(_CLIENT, taken.columns, strict=True)))
