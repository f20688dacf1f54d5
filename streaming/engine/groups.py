"""Group rows of one micro-batch, turned into changes of the tables about groups.

Only the last record of each record key is kept. A group's own records replay through the core's
`GroupReplay`, with the group's offset commits between them: a commit makes an unknown group a
simple one.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.exact_replay import RecordCounts
from coordinator_state.log.log_rows import ROW_KIND_OFFSET, ROW_KIND_RECORD
from coordinator_state.records.message_formatter import key_json, value_json
from coordinator_state.records.record_types import GROUP_METADATA_TYPE
from coordinator_state.records.serde import decode_key, decode_value
from coordinator_state.replay.group_replay import (
    GroupRecord,
    GroupReplay,
    GroupState,
    active_group_unloaded,
    name_of,
)
from coordinator_state.replay.groups import NO_RECORD_OFFSET, simple_group
from coordinator_state.replay.offsets import Semantics
from streaming.engine.offsets import OffsetPlan

logger = logging.getLogger(__name__)

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

    group: GroupState | None
    position: int


class StoredGroups(Protocol):
    """What a group is by its offsets and records in the tables, whatever the micro-batch has."""

    def with_offsets(self, groups: set[GroupId]) -> set[GroupId]:
        """Which of the groups have a row in `group_offsets`."""

    def tombstones(self, groups: set[GroupId]) -> dict[GroupId, int]:
        """Which of the groups have a tombstone as their last GroupMetadata, and where."""


def plan_records(rows: pa.Table, counts: RecordCounts) -> list[dict[str, Any]]:
    """Decode the `record` rows of a micro-batch, in log order.

    Each row gains `record_key`, `name` and `fields` (of the value, None for a tombstone), and the
    last of each key the JSON columns of `coordinator_records`.
    """
    records = rows.filter(pc.equal(rows["row_kind"], ROW_KIND_RECORD)).to_pylist()
    records.sort(key=lambda row: (row["log_partition"], row["record_offset"]))
    last: set[tuple[Any, ...]] = set()
    for row in reversed(records):
        key = decode_key(row["raw_key"])
        row["record_key"] = json.dumps(key_json(key), ensure_ascii=False)
        row["record_type_name"] = key.record_type.name
        row["name"] = name_of(key.fields)
        row["fields"] = row["value"] = None
        identity = (row["log_partition"], row["group_id"], row["record_type"], row["record_key"])
        row["is_last"] = identity not in last
        last.add(identity)
        if not row["is_tombstone"]:
            value = decode_value(key.record_type, row["raw_value"])
            row["fields"] = value.fields
            row["value_version"] = value.version
            if row["is_last"]:
                row["value"] = json.dumps(value_json(value)["data"], ensure_ascii=False)
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
    known: Mapping[GroupId, GroupState],
    semantics: Semantics,
    offset_plan: OffsetPlan,
    stored: StoredGroups,
    *,
    replayed: Mapping[GroupId, GroupState | None] | None = None,
    always: bool = False,
) -> dict[GroupId, GroupChange]:
    """Plan the group changes of one micro-batch.

    Args:
        rows: rows of `LOG_ROW_SCHEMA`, none applied before.
        records: what `plan_records` made of them.
        known: every group before the micro-batch.
        semantics: the loader whose rules hold.
        offset_plan: the same micro-batch's offset changes.
        stored: the tables with the micro-batch's offsets and records merged; asked under `scala`
            semantics only.
        replayed: what groups with records are behind the micro-batch, of those of which this is
            known already, under `coordinator` semantics.
        always: also give groups that did not change, as after a crash, when the table may be
            ahead of `known`.
    """
    by_group: dict[GroupId, list[dict[str, Any]]] = defaultdict(list)
    for row in records:
        by_group[row["log_partition"], row["group_id"]].append(row)
    if semantics is Semantics.COORDINATOR:
        made = group_making_commits(rows, by_group, known)
        return _plan_coordinator(made, by_group, known, replayed or {})
    return _plan_scala(rows, by_group, known, offset_plan, stored, always)


def group_making_commits(
    rows: pa.Table, of: Mapping[GroupId, list[dict[str, Any]]], known: Mapping[GroupId, GroupState]
) -> dict[GroupId, list[int]]:
    """Record offsets of offset commits that may make a group, in order.

    That is one of each group that is not known, and one after each of a group's own records:
    further ones find the group that the first has made.
    """
    commits = rows.filter(
        pc.and_(
            pc.equal(rows["row_kind"], ROW_KIND_OFFSET),
            pc.invert(pc.fill_null(rows["is_tombstone"], True)),
        )
    )
    by_group = commits.group_by(["log_partition", "group_id"]).aggregate(
        [("record_offset", "list")]
    )
    found: dict[GroupId, list[int]] = {}
    for log_partition, group_id, record_offsets in zip(
        by_group["log_partition"].to_pylist(),
        by_group["group_id"].to_pylist(),
        by_group["record_offset_list"],
        strict=True,
    ):
        identity = log_partition, group_id
        if identity in of:
            own = [row["record_offset"] for row in of[identity]]
            in_order = np.sort(record_offsets.values.to_numpy())
            firsts = np.unique(np.searchsorted(in_order, [NO_RECORD_OFFSET, *own]))
            found[identity] = in_order[firsts[firsts < in_order.size]].tolist()
        elif identity not in known:
            found[identity] = [record_offsets.values[0].as_py()]
    return found


def _plan_coordinator(
    commit_offsets: Mapping[GroupId, list[int]],
    by_group: Mapping[GroupId, list[dict[str, Any]]],
    known: Mapping[GroupId, GroupState],
    replayed: Mapping[GroupId, GroupState | None],
) -> dict[GroupId, GroupChange]:
    changes: dict[GroupId, GroupChange] = {}
    for identity in by_group.keys() | commit_offsets.keys():
        records = by_group.get(identity, [])
        if identity in replayed:
            after = replayed[identity]
        else:
            replay = replay_of(identity, known)
            commits = commit_offsets.get(identity, ())
            replay.replay_in_order(identity[1], commits, map(group_record, records))
            after = replay.states.get(identity[1])
        if after is None or after is not known.get(identity):
            position = records[-1]["record_offset"] if records else NO_RECORD_OFFSET
            changes[identity] = GroupChange(group=after, position=position)
    return changes


def replay_of(identity: GroupId, known: Mapping[GroupId, GroupState]) -> GroupReplay:
    """The replay of one group, as far as it is known; logs what a broker would not load."""
    log_partition, group_id = identity
    before = known.get(identity)
    return GroupReplay(
        {} if before is None else {group_id: before},
        on_warning=partial(_log_warning, log_partition),
    )


def group_record(row: Mapping[str, Any]) -> GroupRecord:
    """A row that `plan_records` made, as the core replays it."""
    return GroupRecord(
        record_type=row["record_type"],
        group_id=row["group_id"],
        name=row["name"],
        value=row["fields"],
        record_offset=row["record_offset"],
    )


def _log_warning(log_partition: int, record_offset: int, reason: str) -> None:
    logger.info(
        "log partition %(log_partition)s: a broker would not load record offset "
        "%(record_offset)s: %(reason)s",
        {"log_partition": log_partition, "record_offset": record_offset, "reason": reason},
    )


def _plan_scala(
    rows: pa.Table,
    by_group: dict[GroupId, list[dict[str, Any]]],
    known: Mapping[GroupId, GroupState],
    offset_plan: OffsetPlan,
    stored: StoredGroups,
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
        replay.replay(group_record(last))
        group = replay.states.get(last["group_id"])
        if group is None:
            without_record[identity] = last["record_offset"]
        else:
            changes[identity] = GroupChange(group=group, position=last["record_offset"])
    touched = _touched_by_offsets(rows) | offset_plan.unwaiting
    for identity in touched - changes.keys() - without_record.keys():
        before = known.get(identity)
        if before is None or before.record_offset == NO_RECORD_OFFSET:
            without_record[identity] = NO_RECORD_OFFSET
    waiting = {(entry.log_partition, entry.key.group_id) for entry in offset_plan.pending}
    committed = stored.with_offsets(set(without_record))
    unloaded = stored.tombstones((without_record.keys() & waiting) - committed)
    for identity, position in without_record.items():
        _, group_id = identity
        after = None
        if identity in unloaded:
            after = active_group_unloaded(group_id, unloaded[identity])
        elif identity in waiting or identity in committed:
            after = simple_group(group_id)
        if always or known.get(identity) != after or identity in by_group:
            changes[identity] = GroupChange(group=after, position=position)
    return changes


def _touched_by_offsets(rows: pa.Table) -> set[GroupId]:
    offsets = rows.filter(pc.equal(rows["row_kind"], ROW_KIND_OFFSET))
    touched = offsets.group_by(["log_partition", "group_id"]).aggregate([])
    return {(row["log_partition"], row["group_id"]) for row in touched.to_pylist()}
