"""The member of a group to which each partition is assigned, from the assignments."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
    then has the member with the greater member id.
    """
    columns = ["log_partition", "group_id", *_OWNER, "assignment"]
    members = reader.read("group_members", columns, condition).combine_chunks()
    members = members.sort_by("member_id")
    assignment = members["assignment"].combine_chunks()
    rows = pc.list_parent_indices(assignment)
    partitions = pc.list_flatten(assignment)
    of_member = members.select(["log_partition", "group_id", *_OWNER]).take(rows)
    found = of_member.append_column("topic", pc.struct_field(partitions, "topic"))
    found = found.append_column("partition", pc.struct_field(partitions, "partition"))
    found = found.filter(pc.is_valid(found["topic"])).select(OWNERS.names).cast(OWNERS)
    found = found.append_column("row", pa.array(np.arange(found.num_rows)))
    last = found.group_by(_KEY).aggregate([("row", "max")])["row_max"]
    return found.drop_columns("row").take(last)
