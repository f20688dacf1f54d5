"""Second decoding of quarantined records, which moves them to their tables.

A newer release may know more record types and decode records that an older release could not. It
rebuilds their groups from `coordinator_records`, which has the last record of each key, and
from the offsets in the tables. A coordinator builds the same groups from the compacted log.

The outcome of a quarantined offset is not always known. `offset_commits` has a later tombstone of
its key only if the history reaches back that far, and no table has the marker of an old
transaction. So an offset leaves the quarantine only if `group_offsets` has a later record of its
key. For any other offset, its log partition must be reloaded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.collected import GroupId, collect, record_rows
from coordinator_state.apply.group_rows import (
    described_groups,
    group_rows,
    member_rows,
    unnamed_topics,
)
from coordinator_state.apply.groups import GroupChange
from coordinator_state.log.log_decoder import OffsetRange, decode_record_set
from coordinator_state.log.log_rows import LOG_ROW_SCHEMA, ROW_KIND_OFFSET, ROW_KIND_RECORD
from coordinator_state.log.record_batch_writer import write_record_batch
from coordinator_state.records.record_types import NO_TIMESTAMP
from coordinator_state.replay.group_replay import AskTopicNames, GroupRecord, rebuilt_group
from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.engine.driver.group_tables import GroupTables
from streaming.engine.driver.table_writes import TableWrites
from streaming.engine.written_tables import Merge
from streaming.tables import delta
from streaming.tables.clock import moment_ms
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import (
    COORDINATOR_RECORDS,
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    GROUPS,
    LOST_REASON_PREFIX,
    PENDING_OFFSETS,
    QUARANTINE,
)
from streaming.tables.writer import Writer

Row = dict[str, Any]
Place = tuple[int, int]
"""Log partition and record offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redecoded:
    """The numbers of quarantined records by result.

    `applied` and `superseded` records have left the quarantine. `waiting` counts offsets that can
    be decoded but whose outcome is unknown, by log partition; they need a reload. `undecodable`
    counts all other records, by reason. `groups` is the number of rebuilt groups.
    """

    applied: int = 0
    superseded: int = 0
    waiting: Mapping[int, int] = field(default_factory=dict)
    undecodable: Mapping[str, int] = field(default_factory=dict)
    groups: int = 0


def redecode_quarantine(
    writer: Writer,
    progress: LoadProgress,
    topic_names: AskTopicNames = lambda _topic_ids: {},
) -> Redecoded:
    """Decode the quarantine of a folder again, and move the records that can be decoded.

    `load_progress` is written last. After a crash before that, the next writer rolls the other
    tables back.

    Args:
        writer: the writer of the tables, which have no unfinished micro-batch.
        progress: the progress of the newest snapshot; it is modified.
        topic_names: returns known topic names by topic id.

    Raises:
        WriterFenced: a newer writer has taken over.
        TablesUnavailable: a table cannot be read or written.
    """
    tables = writer.tables
    quarantined = _quarantined(tables)
    rows = _decoded(quarantined)
    collected = collect(rows)
    records = {(r.log_partition, r.record_offset): r.group for r in collected.group_records}
    offsets = collected.offsets.to_pylist()
    stored = GroupTables(tables)
    writes = TableWrites(writer, progress)
    writes.merge(COORDINATOR_RECORDS, record_rows(collected.group_records))
    kept = stored.records(set(records.values()))
    places = {
        (p, record.record_offset)
        for (p, _), group_records in kept.items()
        for record in group_records
    }
    applied = places & records.keys()
    groups = {records[place] for place in applied}
    before = stored.groups(progress.table_versions, progress.release)
    changes = _rebuilt(stored, groups, kept, progress)
    unnamed = unnamed_topics(change.group for change in changes.values())
    described = described_groups(changes, topic_names(unnamed))
    writes.merge(GROUPS, group_rows(changes, described))
    writes.merge(GROUP_MEMBERS, member_rows(changes, described, before))
    moved = {*records, *_superseded(stored, offsets)}
    _account(progress, quarantined, moved, applied)
    writes.merge(QUARANTINE, _places_table(moved), Merge("record_offset", "is_deleted"))
    progress.write(writer)
    decoded = {*records, *map(_place, offsets)}
    return Redecoded(
        applied=len(applied),
        superseded=len(moved) - len(applied),
        waiting=Counter(log_partition for log_partition, _ in decoded - moved),
        undecodable=Counter(r["reason"] for r in quarantined if _place(r) not in decoded),
        groups=len(groups),
    )


def _quarantined(tables: str) -> list[Row]:
    in_log = ~pc.starts_with(pc.field("reason"), LOST_REASON_PREFIX)
    in_log &= pc.field("log_topic") == OFFSETS_TOPIC
    return list(delta.read(tables, QUARANTINE, where=in_log).to_pylist())


def _decoded(quarantined: list[Row]) -> pa.Table:
    """The records that can be decoded now, as log rows."""
    batches: dict[int, list[bytes]] = defaultdict(list)
    for row in sorted(quarantined, key=_place):
        if row["raw_key"] is None:
            continue
        time = row["record_timestamp"]
        timestamp_ms = NO_TIMESTAMP if time is None else moment_ms(time)
        record = (0, timestamp_ms, row["raw_key"], row["raw_value"])
        batches[row["log_partition"]].append(write_record_batch(row["record_offset"], [record]))
    parts = [LOG_ROW_SCHEMA.empty_table()]
    for log_partition, raw in batches.items():
        decoded = decode_record_set(b"".join(raw), OffsetRange(log_partition=log_partition))
        parts.append(pa.Table.from_batches([decoded.rows]))
    rows = pa.concat_tables(parts)
    kinds = pa.array([ROW_KIND_RECORD, ROW_KIND_OFFSET])
    return rows.filter(pc.is_in(rows["row_kind"], kinds))


def _rebuilt(
    stored: GroupTables,
    groups: set[GroupId],
    records: Mapping[GroupId, list[GroupRecord]],
    progress: LoadProgress,
) -> dict[GroupId, GroupChange]:
    committed = stored.record_offsets(GROUP_OFFSETS, groups)
    pending = stored.record_offsets(PENDING_OFFSETS, groups)
    simple = stored.simple_groups(groups)
    changes = {}
    for identity in groups:
        group = rebuilt_group(
            identity[1],
            records[identity],
            progress.semantics,
            release=progress.release,
            committed=committed[identity],
            pending=pending[identity],
            was_simple=identity in simple,
        )
        guard_offset = records[identity][-1].record_offset
        changes[identity] = GroupChange(group=group, guard_offset=guard_offset)
    return changes


def _superseded(stored: GroupTables, offsets: list[Row]) -> set[Place]:
    """The places of offsets whose key has a later record in `group_offsets`."""
    groups = {(row["log_partition"], row["group_id"]) for row in offsets}
    newest = stored.record_offset_by_key(groups)
    return {
        _place(row)
        for row in offsets
        if newest.get(tuple(row[name] for name in GROUP_OFFSETS.key), -1) > row["record_offset"]
    }


def _account(
    progress: LoadProgress, quarantined: list[Row], moved: set[Place], applied: set[Place]
) -> None:
    """Move the counts of the records that leave the quarantine to their new outcomes.

    Rows of records that left the log before a reload are still in the quarantine, but not counted.
    """
    rows = Counter(row["log_partition"] for row in quarantined)
    applied_rows = Counter(log_partition for log_partition, _ in applied)
    for log_partition, count in Counter(log_partition for log_partition, _ in moved).items():
        row = progress.rows[log_partition]
        left = max(0, min(count, row.records_quarantined - (rows[log_partition] - count)))
        row.records_quarantined -= left
        row.records_applied += min(left, applied_rows[log_partition])
        row.records_superseded += left - min(left, applied_rows[log_partition])


def _places_table(places: set[Place]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "log_topic": OFFSETS_TOPIC,
                "log_partition": p,
                "record_offset": at,
                "is_deleted": True,
            }
            for p, at in sorted(places)
        ],
        schema=pa.schema(
            [
                ("log_topic", pa.string()),
                ("log_partition", pa.int32()),
                ("record_offset", pa.int64()),
                ("is_deleted", pa.bool_()),
            ]
        ),
    )


def _place(row: Row) -> Place:
    return row["log_partition"], row["record_offset"]
