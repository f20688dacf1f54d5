"""The progress of share groups, for the view `group_lag`.

A share group commits no offsets. A share coordinator keeps the start offset of each share
partition, and the number of records from there on that are delivered already (the delivery complete
count, KIP-1226). Kafka computes the lag when it is asked: the partition's end offset - start offset
- delivery complete count. The end offset is the high watermark: Kafka lists offsets with the
isolation level READ_UNCOMMITTED, also for groups with another `share.isolation.level`. Without a
start offset or a delivery complete count there is no lag.

The stored start offset is one step late: a broker writes it with the acknowledgements, and moves it
when they are stored. After the last acknowledgement all records may be delivered while the start
offset is that of the first record of the batch. Time lags therefore begin at the first record from
the start offset on that is not delivered, by the state batches.

A partition has no row in `group_lag` if its topic name is unknown: `log_offsets` has no topic ids
of topics that nobody named. If two topic ids have the same name (the topic was deleted and created
again), the share partition that was written last counts.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/
GroupCoordinatorService.java (`computeShareGroupLagAndBuildResponse`,
`shouldComputeSharePartitionLag`) and server/src/main/java/org/apache/kafka/server/util/
NetworkPartitionMetadataClient.java (`createListOffsetsRequest`) at 4.4.0.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import NOWHERE, TIMESTAMP, positions, with_matches
from coordinator_state.apply.group_placement import of_own_log_partition
from coordinator_state.insight.lag import UNKNOWN, Bools, Int64s
from coordinator_state.records.internal_topics import SHARE_STATE_TOPIC
from coordinator_state.replay.groups import SHARE
from streaming.lag.owners import owners, sole_owners
from streaming.tables.filters import of_groups
from streaming.tables.reader import TableReader
from streaming.tables.schemas import SHARE_PARTITIONS, STATE_CURRENT, TOPIC_PROGRESS

NO_START: Final = -1
"""The start offset of a share partition that is not initialized."""
NO_LOG_PARTITION: Final = -1
DELIVERED: Final = (2, 4)
"""The final delivery states: acknowledged, and archived. ARCHIVING (3) is not final."""

_KEY: Final = ["group_id", "topic", "partition"]
_VALUES: Final = [
    *("log_partition", "committed_offset", "commit_timestamp", "delivered", "first_undelivered")
]
# The timestamps from the best to the worst evidence of the last acknowledgement.
_TIMES: Final = ["delivery_timestamp", "write_timestamp", "create_timestamp"]


@dataclass(frozen=True, slots=True)
class ShareRows:
    """The rows of share groups among rows of committed offsets.

    `first_undelivered` is the offset of the first record that is not delivered. `delivered` is the
    number of records after it that are; it is 0 where the delivery complete count is unknown. The
    other rows have their committed offset, and 0.
    """

    is_share: Bools
    has_no_start: Bools
    has_no_count: Bools
    first_undelivered: Int64s
    delivered: Int64s

    @classmethod
    def of(cls, committed: pa.Table) -> ShareRows | None:
        """Find them; None without any."""
        if "delivered" not in committed.column_names:
            return None
        is_share = pc.equal(committed["group_type"], SHARE).to_numpy(zero_copy_only=False)
        is_unknown = pc.is_null(committed["delivered"]).to_numpy()
        committed_offset = committed["committed_offset"].fill_null(UNKNOWN)
        offsets = committed_offset.to_numpy()
        first = pc.coalesce(committed["first_undelivered"], committed_offset)
        after_first = pc.subtract(committed["delivered"], pc.subtract(first, offsets))
        return cls(
            is_share=is_share,
            has_no_start=is_share & (offsets == NO_START),
            has_no_count=is_share & is_unknown,
            first_undelivered=first.to_numpy(),
            delivered=pc.fill_null(after_first, 0).to_numpy(),
        )


def share_offsets(reader: TableReader, groups: pa.Table) -> pa.Table:
    """A row for each share partition of these groups, like the rows of `group_offsets`.

    `committed_offset` is the start offset, `NO_START` if it is not initialized. `delivered` is the
    delivery complete count, null if unknown; `first_undelivered` is as in `ShareRows`.
    `commit_timestamp` is that of the last record that changed the delivery state
    (`delivery_timestamp`). If that is null, it is the write timestamp, the create timestamp or the
    moment of the tables, so the group never looks older than it is.

    The member is null unless exactly one member has the partition assigned: the members of a share
    group share partitions.

    Once all log partitions are loaded, an assigned partition without a record has no state yet. Its
    `log_partition` is `NO_LOG_PARTITION`: no record names it.

    Args:
        reader: the snapshot.
        groups: `group_id`, `group_type` and `group_state` of share groups.
    """
    group_ids = groups["group_id"].to_pylist()
    share_partitions = _share_partitions(reader, group_ids, reader.moment)
    share_partitions = pa.concat_tables(
        [share_partitions, _without_state(reader, group_ids, share_partitions)]
    )
    group_columns = groups.select(["group_id", "group_type", "group_state"])
    share_partitions = with_matches(share_partitions, group_columns, ["group_id"])
    members = of_own_log_partition(
        sole_owners(reader, of_groups(group_ids)), reader.log_partitions
    ).drop_columns("log_partition")
    return with_matches(share_partitions, members, _KEY)


def _without_state(
    reader: TableReader, group_ids: Collection[str], share_partitions: pa.Table
) -> pa.Table:
    """The assigned partitions without a share partition, like `_share_partitions`."""
    states = share_progress(reader)["state"]
    if not len(states) or pc.unique(states).to_pylist() != [STATE_CURRENT]:
        return share_partitions.slice(0, 0)
    assigned = of_own_log_partition(owners(reader, of_groups(group_ids)), reader.log_partitions)
    keys = assigned.select(_KEY)
    keys = keys.filter(pa.array(positions(keys, share_partitions.select(_KEY)) == NOWHERE))
    values = {
        "log_partition": NO_LOG_PARTITION,
        "committed_offset": NO_START,
        "first_undelivered": NO_START,
        "commit_timestamp": reader.moment,
        "delivered": 0,
    }
    schema = share_partitions.schema
    columns = [
        pa.repeat(pa.scalar(values[name], schema.field(name).type), len(keys)) for name in _VALUES
    ]
    return pa.table([*keys.columns, *columns], names=[*_KEY, *_VALUES]).select(schema.names)


def start_offsets(reader: TableReader, group_ids: Collection[str]) -> pa.Table:
    """The key, `log_partition` and `committed_offset` of initialized share partitions.

    Share partitions in log partitions of `__share_group_state` that are not loaded are left out.
    """
    share_partitions = _share_partitions(reader, group_ids, reader.moment)
    progress = share_progress(reader)
    loaded = progress.filter(pc.equal(progress["state"], STATE_CURRENT))["log_partition"]
    is_known = pc.and_(
        pc.is_in(share_partitions["log_partition"], loaded.combine_chunks()),
        pc.not_equal(share_partitions["committed_offset"], NO_START),
    )
    return share_partitions.filter(is_known).select(["log_partition", *_KEY, "committed_offset"])


def share_progress(reader: TableReader) -> pa.Table:
    """`log_partition`, `next_offset` and `state` of each log partition of `__share_group_state`."""
    columns = ["log_partition", "next_offset", "state"]
    of_topic = [("log_topic", "=", SHARE_STATE_TOPIC)]
    return reader.read(TOPIC_PROGRESS.name, ["log_topic", *columns], of_topic).select(columns)


def _share_partitions(
    reader: TableReader, group_ids: Collection[str], otherwise: datetime
) -> pa.Table:
    """`_KEY` and `_VALUES` of the share partitions of groups; `otherwise` is the unknown time."""
    columns = [
        *("log_partition", *_KEY, "start_offset", "delivery_complete_count", "state_batches"),
        *_TIMES,
    ]
    rows = reader.read(SHARE_PARTITIONS.name, columns, of_groups(group_ids))
    rows = rows.filter(pc.is_valid(rows["topic"])).combine_chunks()
    times = pc.coalesce(*(rows[name] for name in _TIMES), pa.scalar(otherwise, TIMESTAMP))
    share_partitions = pa.table(
        [
            *(rows[name] for name in (*_KEY, "log_partition", "start_offset")),
            *(times, pc.cast(rows["delivery_complete_count"], pa.int64())),
            pa.array(_first_undelivered(rows)),
        ],
        names=[*_KEY, *_VALUES],
    )
    newest = share_partitions.sort_by("commit_timestamp").group_by(_KEY, use_threads=False)
    share_partitions = newest.aggregate([(name, "last") for name in _VALUES])
    return share_partitions.rename_columns(
        [name.removesuffix("_last") for name in share_partitions.column_names]
    )


def _first_undelivered(rows: pa.Table) -> Int64s:
    """The first offset from the start offset on that is in no batch of `DELIVERED` records."""
    first_undelivered: Int64s = rows["start_offset"].to_numpy().copy()
    lists = rows["state_batches"].combine_chunks()
    if not rows.num_rows or not len(batches := pc.list_flatten(lists)):
        return first_undelivered
    row = pc.list_parent_indices(lists).to_numpy()
    first, last, state = (
        pc.struct_field(batches, name).to_numpy(zero_copy_only=False)
        for name in ("first_offset", "last_offset", "delivery_state")
    )
    is_first = np.append(True, row[1:] != row[:-1])
    follows = np.where(
        is_first, first <= first_undelivered[row], first == np.append(0, last[:-1] + 1)
    )
    # The number of breaks of the run of delivered batches, from the first batch of the row on.
    breaks = np.cumsum(~follows | ~np.isin(state, DELIVERED))
    before = np.append(0, breaks)[np.flatnonzero(is_first)][np.cumsum(is_first) - 1]
    in_run = breaks == before
    np.maximum.at(first_undelivered, row[in_run], last[in_run] + 1)
    return first_undelivered
