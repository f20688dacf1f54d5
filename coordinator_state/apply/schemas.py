"""The schemas of the rows that a micro-batch writes, with times in milliseconds.

A change has additional columns: a flag for deletion and, except for members, the guard offset of
the MERGE.
"""

from __future__ import annotations

import pyarrow as pa

from coordinator_state.apply.columns import nullable, schema_in_ms
from coordinator_state.apply.rows import (
    CommittedOffsetRow,
    CoordinatorRecordRow,
    GroupEventRow,
    GroupRow,
    MemberRow,
    OffsetCommitRow,
    PendingOffsetRow,
    QuarantinedRecordRow,
)

GROUP_OFFSET_ROW = schema_in_ms(CommittedOffsetRow)
PENDING_OFFSET_ROW = schema_in_ms(PendingOffsetRow)
GROUP_ROW = schema_in_ms(GroupRow)
GROUP_MEMBER_ROW = schema_in_ms(MemberRow)
COORDINATOR_RECORD_ROW = schema_in_ms(CoordinatorRecordRow)
OFFSET_COMMIT_ROW = schema_in_ms(OffsetCommitRow)
GROUP_EVENT_ROW = schema_in_ms(GroupEventRow)
QUARANTINE_ROW = schema_in_ms(QuarantinedRecordRow)


def _changes(row: pa.Schema, *columns: pa.Field) -> pa.Schema:
    """The schema of changes. Every column is nullable, because a deletion has few values."""
    return pa.schema([*nullable(row), *columns])


GUARD_OFFSET = "guard_offset"
"""A change is skipped if the stored row has a greater record offset than this one.

It is the greatest record offset among the key's records that took effect. The winning record may
have a smaller one: under `scala` semantics COMMIT restores a pending offset older than a tombstone.
"""

OFFSET_CHANGE_SCHEMA = _changes(
    GROUP_OFFSET_ROW, pa.field("is_tombstone", pa.bool_()), pa.field(GUARD_OFFSET, pa.int64())
)
GROUP_CHANGE_SCHEMA = _changes(
    GROUP_ROW, pa.field("is_deleted", pa.bool_()), pa.field(GUARD_OFFSET, pa.int64())
)
MEMBER_CHANGE_SCHEMA = _changes(GROUP_MEMBER_ROW, pa.field("is_deleted", pa.bool_()))
HISTORY_SCHEMA = nullable(OFFSET_COMMIT_ROW)
EVENT_SCHEMA = nullable(GROUP_EVENT_ROW)
OFFSET_KEY = ("log_partition", "group_id", "topic", "partition")
