"""Group rows of one micro-batch, turned into changes of the tables about groups.

Only the last record of each record key is kept. A group's own records replay through the core's
`GroupReplay`; of its offset commits one matters, the last, since a commit does nothing but make an
unknown group a simple one.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.groups import NO_RECORD_OFFSET, Group, GroupReplay, simple_group
from coordinator_state.log_rows import ROW_KIND_OFFSET, ROW_KIND_RECORD
from coordinator_state.message_formatter import key_json, value_json
from coordinator_state.offsets import Semantics
from coordinator_state.record_types import GROUP_METADATA_TYPE
from coordinator_state.serde import decode_key, decode_value
from streaming.apply.exact_replay import RecordCounts
from streaming.apply.offsets import OffsetPlan

GroupId = tuple[int, str]
"""Log partition and group id."""

RECORD_SCHEMA = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("group_id", pa.string()),
        ("record_type", pa.int32()),
        ("record_type_name", pa.string()),
        ("record_key", pa.string()),
        ("value_version", pa.int32()),
        ("value", pa.string()),
        ("raw_key", pa.binary()),
        ("raw_value", pa.binary()),
        ("is_tombstone", pa.bool_()),
        ("record_offset", pa.int64()),
        ("record_timestamp_ms", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """What a group is after the micro-batch, None for gone; `position` guards the MERGE."""

    group: Group | None
    position: int


def plan_records(rows: pa.Table, counts: RecordCounts) -> list[dict[str, Any]]:
    """Decode the `record` rows of a micro-batch, in log order.

    Each row gains `record_key`, `fields` (of the value, None for a tombstone) and the JSON columns
    of `coordinator_records`.
    """
    records = rows.filter(pc.equal(rows["row_kind"], ROW_KIND_RECORD)).to_pylist()
    records.sort(key=lambda row: (row["log_partition"], row["record_offset"]))
    last: set[tuple[Any, ...]] = set()
    for row in reversed(records):
        key = decode_key(row["raw_key"])
        row["record_key"] = json.dumps(key_json(key), ensure_ascii=False)
        row["record_type_name"] = key.record_type.name
        row["fields"] = row["value"] = None
        if not row["is_tombstone"]:
            value = decode_value(key.record_type, row["raw_value"])
            row["fields"] = value.fields
            row["value_version"] = value.version
            row["value"] = json.dumps(value_json(value)["data"], ensure_ascii=False)
        identity = (row["log_partition"], row["group_id"], row["record_type"], row["record_key"])
        row["is_last"] = identity not in last
        last.add(identity)
        counter = counts.applied if row["is_last"] else counts.superseded
        counter[row["log_partition"]] += 1
    return records


def records_table(records: list[dict[str, Any]]) -> pa.Table:
    """The last record of each key as rows of `coordinator_records`."""
    return pa.Table.from_pylist(
        [{name: row[name] for name in RECORD_SCHEMA.names} for row in records if row["is_last"]],
        schema=RECORD_SCHEMA,
    )


def plan_groups(
    rows: pa.Table,
    records: list[dict[str, Any]],
    known: Mapping[GroupId, Group],
    semantics: Semantics,
    offset_plan: OffsetPlan,
    with_offsets: Callable[[set[GroupId]], set[GroupId]],
    *,
    always: bool = False,
) -> dict[GroupId, GroupChange]:
    """Plan the group changes of one micro-batch.

    Args:
        rows: rows of `LOG_ROW_SCHEMA`, none applied before.
        records: what `plan_records` made of them.
        known: every group before the micro-batch; members are not looked at.
        semantics: the loader whose rules hold.
        offset_plan: the same micro-batch's offset changes.
        with_offsets: tells which of some groups have a row in `group_offsets` after the
            micro-batch's offsets are merged; asked under `scala` semantics only.
        always: also give groups that did not change, as after a crash, when the table may be
            ahead of `known`.
    """
    by_group: dict[GroupId, list[dict[str, Any]]] = defaultdict(list)
    for row in records:
        by_group[row["log_partition"], row["group_id"]].append(row)
    if semantics is Semantics.COORDINATOR:
        return _plan_coordinator(_last_commits(rows), by_group, known)
    return _plan_scala(rows, by_group, known, offset_plan, with_offsets, always)


def _last_commits(rows: pa.Table) -> dict[GroupId, int]:
    """The record offset of the last non-tombstone offset row of each group."""
    commits = rows.filter(
        pc.and_(
            pc.equal(rows["row_kind"], ROW_KIND_OFFSET),
            pc.invert(pc.fill_null(rows["is_tombstone"], True)),
        )
    )
    last = commits.group_by(["log_partition", "group_id"]).aggregate([("record_offset", "max")])
    return {
        (row["log_partition"], row["group_id"]): row["record_offset_max"]
        for row in last.to_pylist()
    }


def _plan_coordinator(
    last_commits: dict[GroupId, int],
    by_group: dict[GroupId, list[dict[str, Any]]],
    known: Mapping[GroupId, Group],
) -> dict[GroupId, GroupChange]:
    changes: dict[GroupId, GroupChange] = {}
    for identity in by_group.keys() | {i for i in last_commits if i not in known}:
        _, group_id = identity
        before = known.get(identity)
        replay = GroupReplay({} if before is None else {group_id: before})
        last_commit = last_commits.get(identity)
        position = NO_RECORD_OFFSET
        for row in by_group.get(identity, ()):
            if last_commit is not None and last_commit < row["record_offset"]:
                replay.replay_offset_commit(group_id)
                last_commit = None
            position = row["record_offset"]
            replay.replay_record(row["record_type"], group_id, row["fields"], position)
        if last_commit is not None:
            replay.replay_offset_commit(group_id)
        after = replay.groups.get(group_id)
        if after is None or after is not before:
            # A group that is unchanged may be known without its members: it is left as it is.
            changes[identity] = GroupChange(group=after, position=position)
    return changes


def _plan_scala(
    rows: pa.Table,
    by_group: dict[GroupId, list[dict[str, Any]]],
    known: Mapping[GroupId, Group],
    offset_plan: OffsetPlan,
    with_offsets: Callable[[set[GroupId]], set[GroupId]],
    always: bool,
) -> dict[GroupId, GroupChange]:
    changes: dict[GroupId, GroupChange] = {}
    without_record: dict[GroupId, int] = {}
    for identity, group_records in by_group.items():
        own = [row for row in group_records if row["record_type"] == GROUP_METADATA_TYPE]
        if not own:
            continue
        last = own[-1]
        replay = GroupReplay()
        replay.replay_record(
            last["record_type"], last["group_id"], last["fields"], last["record_offset"]
        )
        group = replay.groups.get(last["group_id"])
        if group is None:
            without_record[identity] = last["record_offset"]
        else:
            changes[identity] = GroupChange(group=group, position=last["record_offset"])
    touched = _touched_by_offsets(rows) | offset_plan.unwaiting
    for identity in touched - changes.keys() - without_record.keys():
        before = known.get(identity)
        if before is None or before.record_offset == NO_RECORD_OFFSET:
            without_record[identity] = NO_RECORD_OFFSET
    alive = {(entry.log_partition, entry.key.group_id) for entry in offset_plan.pending}
    alive |= with_offsets(without_record.keys() - alive)
    for identity, position in without_record.items():
        before = known.get(identity)
        after = simple_group(identity[1]) if identity in alive else None
        if always or (before is None) != (after is None) or identity in by_group:
            changes[identity] = GroupChange(group=after, position=position)
    return changes


def _touched_by_offsets(rows: pa.Table) -> set[GroupId]:
    offsets = rows.filter(pc.equal(rows["row_kind"], ROW_KIND_OFFSET))
    touched = offsets.group_by(["log_partition", "group_id"]).aggregate([])
    return {(row["log_partition"], row["group_id"]) for row in touched.to_pylist()}
