"""Offset rows and markers of one micro-batch, turned into changes of tables.

Keys that no transaction touches take the fast way: of their plain rows the one with the greatest
record offset wins, found over columns. A key with a transactional row in the micro-batch, or one
that is waiting in `pending_offsets`, takes the exact way: its rows and the markers run through the
core's `OffsetReplay` in log order. Both ways give what the reference loader would; a property test
holds them to it.

A change carries two offsets. `record_offset` is where the winning record lies; `position` is the
greatest record offset that took part for the key, and what the MERGE is guarded by. They differ
only under `scala` semantics, where a COMMIT brings a waiting offset back that is older than the
tombstone before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.log_rows import ROW_KIND_MARKER, ROW_KIND_OFFSET
from coordinator_state.offsets import Outcome, Semantics
from coordinator_state.record_types import NO_PRODUCER_ID
from streaming.apply.exact_replay import (
    OFFSET_COLUMNS,
    ExactReplay,
    PendingOffset,
    RecordCounts,
)

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
    offsets = rows.filter(pc.equal(kind, ROW_KIND_OFFSET)).select(
        [*OFFSET_COLUMNS, "is_transactional"]
    )
    markers = rows.filter(pc.equal(kind, ROW_KIND_MARKER)).select(
        [
            "log_partition",
            "record_offset",
            "record_timestamp_ms",
            "producer_id",
            "control_type",
        ]
    )
    waits = _waits(offsets, semantics)
    codes, transactional_codes = _key_codes(offsets, waits, pending)
    exact = np.isin(codes, transactional_codes) if len(transactional_codes) else waits
    fast_offsets = offsets if not exact.any() else offsets.filter(pa.array(~exact))

    fast_changes = _last_per_key(fast_offsets, codes[~exact], counts)
    replay = ExactReplay(semantics=semantics, counts=counts)
    replay.run(offsets.filter(pa.array(exact)), waits[exact], markers, pending)

    history = [_plain_history(fast_offsets)] if with_history else []
    if with_history and replay.history:
        history.append(pa.Table.from_pylist(replay.history, schema=HISTORY_SCHEMA))
    changes = [fast_changes]
    if replay.changes:
        changes.append(pa.Table.from_pylist(replay.changes, schema=OFFSET_CHANGE_SCHEMA))
    return OffsetPlan(
        changes=pa.concat_tables(changes),
        history=pa.concat_tables(history) if history else HISTORY_SCHEMA.empty_table(),
        pending=replay.pending,
        unwaiting=replay.unwaiting,
    )


def _waits(offsets: pa.Table, semantics: Semantics) -> np.ndarray[Any, Any]:
    if semantics is Semantics.COORDINATOR:
        return _numpy(pc.not_equal(offsets["producer_id"], NO_PRODUCER_ID))
    return _numpy(offsets["is_transactional"])


def _numpy(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    return column.combine_chunks().to_numpy(zero_copy_only=False)


def _key_codes(
    offsets: pa.Table, waits: np.ndarray[Any, Any], pending: Sequence[PendingOffset]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """One integer per key, the same for the same key; and the codes that a transaction touches."""
    keys = offsets.select(["log_partition", "group_id", "topic", "partition"])
    if pending:
        waiting = pa.Table.from_pylist(
            [
                {
                    "log_partition": entry.log_partition,
                    "group_id": entry.key.group_id,
                    "topic": entry.key.topic,
                    "partition": entry.key.partition,
                }
                for entry in pending
            ],
            schema=keys.schema,
        )
        keys = pa.concat_tables([keys, waiting])
    codes = key_codes(keys)
    row_codes, pending_codes = codes[: offsets.num_rows], codes[offsets.num_rows :]
    return row_codes, np.unique(np.concatenate([row_codes[waits], pending_codes]))


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
    read = _count_by_log_partition(offsets)
    applied = _count_by_log_partition(winners)
    counts.applied.update(applied)
    counts.superseded.update({k: read[k] - applied.get(k, 0) for k in read})
    winners = winners.append_column("position", winners["record_offset"])
    # A plain commit has no producer, whatever the batch header said under `scala` semantics.
    index = winners.schema.get_field_index("producer_id")
    winners = winners.set_column(index, "producer_id", pa.nulls(winners.num_rows, pa.int64()))
    return winners.select(OFFSET_CHANGE_SCHEMA.names).cast(OFFSET_CHANGE_SCHEMA)


def _count_by_log_partition(table: pa.Table) -> dict[int, int]:
    values, numbers = np.unique(_numpy(table["log_partition"]), return_counts=True)
    return dict(zip(values.tolist(), numbers.tolist(), strict=True))


def _plain_history(offsets: pa.Table) -> pa.Table:
    size = offsets.num_rows
    index = offsets.schema.get_field_index("producer_id")
    return (
        offsets.set_column(index, "producer_id", pa.nulls(size, pa.int64()))
        .drop_columns(["producer_epoch", "is_transactional"])
        .append_column("producer_epoch", pa.nulls(size, pa.int32()))
        .append_column("outcome", pa.repeat(Outcome.COMMITTED.value, size))
        .append_column("outcome_record_offset", offsets["record_offset"])
        .append_column("outcome_timestamp_ms", offsets["record_timestamp_ms"])
        .select(HISTORY_SCHEMA.names)
        .cast(HISTORY_SCHEMA)
    )
