"""Offset rows and markers of one micro-batch, turned into changes of tables.

What becomes of an offset is found over columns (`outcomes`), and of those of a key that take part
the one with the greatest record offset wins. A key with both a transaction and a tombstone in the
micro-batch takes the exact way: its rows and the markers run through the core's `OffsetReplay` in
log order. Both ways give what the reference loader would; a property test holds them to it.

A change carries two offsets. `record_offset` is where the winning record lies; `position` is the
greatest record offset that took part for the key, and what the MERGE is guarded by. They differ
only under `scala` semantics, where a COMMIT brings a waiting offset back that is older than the
tombstone before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.exact_replay import (
    OFFSET_COLUMNS,
    ExactReplay,
    PendingOffset,
    RecordCounts,
)
from coordinator_state.apply.outcomes import Outcomes, outcomes_of
from coordinator_state.log.log_rows import ROW_KIND_MARKER, ROW_KIND_OFFSET
from coordinator_state.records.record_types import NO_PRODUCER_ID
from coordinator_state.replay.offsets import Outcome, Semantics
from streaming.engine.pending_rows import WAITING_SCHEMA, waiting_of, waiting_rows

OFFSET_CHANGE_SCHEMA = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("is_tombstone", pa.bool_()),
        ("position", pa.int64()),
        ("record_offset", pa.int64()),
        ("committed_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_timestamp_ms", pa.int64()),
        ("expire_timestamp_ms", pa.int64()),
        ("topic_id", pa.string()),
        ("producer_id", pa.int64()),
    ]
)

HISTORY_SCHEMA = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("record_offset", pa.int64()),
        ("record_timestamp_ms", pa.int64()),
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("is_tombstone", pa.bool_()),
        ("committed_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_timestamp_ms", pa.int64()),
        ("expire_timestamp_ms", pa.int64()),
        ("topic_id", pa.string()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("outcome", pa.string()),
        ("outcome_record_offset", pa.int64()),
        ("outcome_timestamp_ms", pa.int64()),
    ]
)

KEY = ["log_partition", "group_id", "topic", "partition"]
MARKER_COLUMNS = [
    "log_partition",
    "record_offset",
    "record_timestamp_ms",
    "producer_id",
    "control_type",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPlan:
    """What a micro-batch does to offsets.

    `changes` has one row per key (`OFFSET_CHANGE_SCHEMA`), `history` one per record whose outcome
    is now known (`HISTORY_SCHEMA`), `pending` is everything that waits after the micro-batch.
    `unwaiting` names the groups that had something waiting dropped or cleared.
    """

    changes: pa.Table
    history: pa.Table
    pending: list[PendingOffset]
    unwaiting: set[tuple[int, str]]


def plan_offsets(
    rows: pa.Table,
    pending: Sequence[PendingOffset],
    semantics: Semantics,
    counts: RecordCounts,
    *,
    with_history: bool = True,
) -> OffsetPlan:
    """Plan the offset changes of one micro-batch.

    Args:
        rows: rows of `LOG_ROW_SCHEMA`, of several log partitions, in any order, none applied
            before.
        pending: what waits before the micro-batch.
        semantics: the loader whose rules hold.
        counts: gets what became of each record.
        with_history: whether `history` is wanted.
    """
    kind = rows["row_kind"]
    offsets = _offset_rows(rows.filter(pc.equal(kind, ROW_KIND_OFFSET)), semantics)
    markers = rows.filter(pc.equal(kind, ROW_KIND_MARKER)).select(MARKER_COLUMNS)
    if pending:
        offsets = pa.concat_tables([offsets, waiting_rows(pending)])
    is_exact = np.zeros(offsets.num_rows, dtype=np.bool_)
    codes = key_codes(offsets.select(KEY))
    waits = _numpy(offsets["waits"])
    if waits.any():
        of_tombstones = codes[_numpy(offsets["is_tombstone"])]
        is_exact = np.isin(codes, np.intersect1d(codes[waits], of_tombstones))

    replay = ExactReplay(semantics=semantics, counts=counts)
    if is_exact.any():
        first_pending = offsets.num_rows - len(pending)
        is_of_pending = is_exact[first_pending:].tolist()
        replay.run(
            offsets[:first_pending].filter(pa.array(is_exact[:first_pending])),
            markers,
            [entry for entry, is_its in zip(pending, is_of_pending, strict=True) if is_its],
        )
        offsets = offsets.filter(pa.array(~is_exact))
        codes, waits = codes[~is_exact], waits[~is_exact]
    outcomes = outcomes_of(offsets, codes, waits, markers, semantics)
    _count(offsets, outcomes, markers, replay.ended, counts)

    takes_part = outcomes.takes_part
    changes = [_last_per_key(offsets.filter(pa.array(takes_part)), codes[takes_part], counts)]
    if replay.changes:
        changes.append(pa.Table.from_pylist(replay.changes, schema=OFFSET_CHANGE_SCHEMA))
    history = [HISTORY_SCHEMA.empty_table()]
    if with_history:
        history.append(_history(offsets, outcomes, markers))
        history.append(pa.Table.from_pylist(replay.history, schema=HISTORY_SCHEMA))
    return OffsetPlan(
        changes=pa.concat_tables(changes),
        history=pa.concat_tables(history),
        pending=replay.pending + waiting_of(offsets.filter(pa.array(outcomes.is_waiting))),
        unwaiting=replay.unwaiting
        | _groups(offsets.filter(pa.array(waits & ~outcomes.is_waiting))),
    )


def _offset_rows(offsets: pa.Table, semantics: Semantics) -> pa.Table:
    """Offsets, and whether they wait; the others have no producer, whatever the header said."""
    if semantics is Semantics.COORDINATOR:
        waits = pc.not_equal(offsets["producer_id"], NO_PRODUCER_ID)
    else:
        waits = offsets["is_transactional"]
    offsets = offsets.select(list(OFFSET_COLUMNS))
    for name in ("producer_id", "producer_epoch"):
        index = offsets.schema.get_field_index(name)
        offsets = offsets.set_column(index, name, pc.if_else(waits, offsets[name], None))
    return offsets.append_column("waits", waits).cast(WAITING_SCHEMA)


def _groups(rows: pa.Table) -> set[tuple[int, str]]:
    found = rows.group_by(["log_partition", "group_id"]).aggregate([]).to_pylist()
    return {(row["log_partition"], row["group_id"]) for row in found}


def _count(
    offsets: pa.Table,
    outcomes: Outcomes,
    markers: pa.Table,
    ended_exactly: set[tuple[int, int]],
    counts: RecordCounts,
) -> None:
    """Count what became of all but those that take part."""
    counts.ignored.update(by_log_partition(offsets, outcomes.of(Outcome.ABORTED)))
    counts.superseded.update(by_log_partition(offsets, outcomes.of(Outcome.SUPERSEDED)))
    is_applied = np.zeros(markers.num_rows, dtype=np.bool_)
    by_markers = outcomes.ended_by[outcomes.ended_by >= offsets.num_rows]
    is_applied[by_markers - offsets.num_rows] = True
    if ended_exactly:
        places = zip(
            markers["log_partition"].to_pylist(), markers["record_offset"].to_pylist(), strict=True
        )
        is_applied |= np.array([place in ended_exactly for place in places])
    counts.applied.update(by_log_partition(markers, is_applied))
    counts.ignored.update(by_log_partition(markers, ~is_applied))


def _numpy(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    return column.combine_chunks().to_numpy(zero_copy_only=False)


def key_codes(keys: pa.Table) -> np.ndarray[Any, Any]:
    """One integer per key (log partition, group, topic, partition), the same for the same key."""
    codes = np.zeros(keys.num_rows, dtype=np.int64)
    for name in ("group_id", "topic", "partition", "log_partition"):
        column = keys[name].combine_chunks().dictionary_encode()
        indices = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes = codes * max(1, len(column.dictionary)) + indices
        # Back to small numbers, so that the next product cannot overflow.
        _, codes = np.unique(codes, return_inverse=True)
    return codes


def _last_per_key(offsets: pa.Table, codes: np.ndarray[Any, Any], counts: RecordCounts) -> pa.Table:
    record_offsets = _numpy(offsets["record_offset"])
    order = np.lexsort((record_offsets, codes))
    is_last = np.ones(len(order), dtype=bool)
    is_last[:-1] = codes[order[1:]] != codes[order[:-1]]
    winners = offsets.take(pa.array(order[is_last]))
    read, applied = by_log_partition(offsets), by_log_partition(winners)
    counts.applied.update(applied)
    counts.superseded.update({k: read[k] - applied.get(k, 0) for k in read})
    winners = winners.append_column("position", winners["record_offset"])
    return winners.select(OFFSET_CHANGE_SCHEMA.names).cast(OFFSET_CHANGE_SCHEMA)


def _history(offsets: pa.Table, outcomes: Outcomes, markers: pa.Table) -> pa.Table:
    for name, column in outcomes.columns(offsets, markers).items():
        offsets = offsets.append_column(name, column)
    if outcomes.is_waiting.any():
        offsets = offsets.filter(pa.array(~outcomes.is_waiting))
    return offsets.select(HISTORY_SCHEMA.names).cast(HISTORY_SCHEMA)


def by_log_partition(rows: pa.Table, mask: np.ndarray[Any, Any] | None = None) -> dict[int, int]:
    """The number of rows of each log partition, of those that the mask has."""
    column = rows["log_partition"]
    found = (column if mask is None else column.filter(pa.array(mask))).value_counts()
    return dict(
        zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True)
    )


def is_below(rows: pa.Table, column: str, bounds: Mapping[int, int]) -> pa.ChunkedArray:
    """Which rows have a record offset in the column below the bound of their log partition."""
    places = pc.index_in(rows["log_partition"], value_set=pa.array(list(bounds), pa.int32()))
    bound = pc.take(pa.array(list(bounds.values()), pa.int64()), places)
    return pc.fill_null(pc.less(rows[column], bound), False)
