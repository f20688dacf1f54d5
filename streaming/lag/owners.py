"""The member of a group to which each partition is assigned, from the assignments."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import distinct_keys
from streaming.tables.reader import TableReader

_KEY = ["log_partition", "group_id", "topic", "partition"]
_OWNER = ["member_id", "client_id", "client_host"]
OWNERS = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        *((name, pa.string()) for name in _OWNER),
    ]
)


def owners(reader: TableReader, condition: pc.Expression | None = None) -> pa.Table:
    """A row for each assigned partition; streams groups have none, as their tasks name no topics.

    Two members may have the same partition until one of them learns that it was revoked. The row
    then has the member with the greater member id. Members of share groups share partitions.
    """
    assigned = _assigned(reader, condition)
    keys = distinct_keys(assigned.select(_KEY))
    last = np.zeros(keys.max(initial=-1) + 1, np.int64)
    last[keys] = np.arange(keys.size)
    return assigned.take(pa.array(last))


def sole_owners(reader: TableReader, condition: pc.Expression | None = None) -> pa.Table:
    """A row for each partition that exactly one member has assigned."""
    assigned = _assigned(reader, condition)
    keys = distinct_keys(assigned.select(_KEY))
    return assigned.filter(pa.array(np.bincount(keys)[keys] == 1))


def _assigned(reader: TableReader, condition: pc.Expression | None) -> pa.Table:
    """A row for each member and partition, in the order of member ids."""
    columns = ["log_partition", "group_id", *_OWNER, "assignment"]
    members = reader.read("group_members", columns, condition).combine_chunks()
    members = members.sort_by("member_id")
    assignment = members["assignment"].combine_chunks()
    rows = pc.list_parent_indices(assignment)
    partitions = pc.list_flatten(assignment)
    of_member = members.select(["log_partition", "group_id", *_OWNER]).take(rows)
    assigned = of_member.append_column("topic", pc.struct_field(partitions, "topic"))
    assigned = assigned.append_column("partition", pc.struct_field(partitions, "partition"))
    return assigned.filter(pc.is_valid(assigned["topic"])).select(OWNERS.names).cast(OWNERS)
