"""The records of an internal topic other than `__consumer_offsets`, decoded from their log rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.counts import RecordCounts, by_log_partition
from coordinator_state.apply.rows import QUARANTINE_ROW
from coordinator_state.errors import CoordinatorStateError
from coordinator_state.log.log_rows import (
    ROW_KIND_MARKER,
    ROW_KIND_PROGRESS,
    ROW_KIND_RECORD,
    ROW_KIND_UNDECODABLE,
)
from coordinator_state.records.record_types import RecordType
from coordinator_state.records.serde import DecodedKey, decode_key, decode_value

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord(Generic[Value]):
    """A record; its value is None for a tombstone."""

    log_partition: int
    record_offset: int
    record_timestamp_ms: int | None
    key: DecodedKey
    value: Value | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecords(Generic[Value]):
    """The records of a micro-batch in log order, and rows of `quarantine` for the others."""

    records: Sequence[TopicRecord[Value]]
    quarantine: pa.Table
    counts: RecordCounts


def decode_topic_records(
    rows: pa.Table,
    record_types: Mapping[int, RecordType],
    read: Callable[[Mapping[str, Any]], Value],
) -> TopicRecords[Value]:
    """Decode the log rows (`LOG_ROW_SCHEMA`, in any order) of one topic.

    Markers are ignored: a coordinator writes no transactions into its own log.

    Args:
        rows: the rows; those of kind `progress` are ignored.
        record_types: the record types of the topic.
        read: the meaning of the fields of a value; an error quarantines the record.
    """
    kinds = rows["row_kind"]
    wanted = rows.filter(pc.is_in(kinds, pa.array([ROW_KIND_RECORD, ROW_KIND_UNDECODABLE])))
    in_order = wanted.sort_by([("log_partition", "ascending"), ("record_offset", "ascending")])
    keys: dict[bytes, DecodedKey] = {}
    records, undecodable = [], []
    for row in in_order.to_pylist():
        if row["row_kind"] == ROW_KIND_UNDECODABLE:
            undecodable.append(row)
            continue
        raw_key, raw_value = row["raw_key"], row["raw_value"]
        try:
            if raw_key not in keys:
                keys[raw_key] = decode_key(raw_key, record_types)
            key = keys[raw_key]
            value = None if raw_value is None else decode_value(key.record_type, raw_value)
            records.append(
                TopicRecord(
                    log_partition=row["log_partition"],
                    record_offset=row["record_offset"],
                    record_timestamp_ms=row["record_timestamp_ms"],
                    key=key,
                    value=None if value is None else read(value.fields),
                )
            )
        except CoordinatorStateError as error:
            undecodable.append(row | {"reason": str(error)})
    quarantine = pa.Table.from_pylist(undecodable, schema=QUARANTINE_ROW)
    return TopicRecords(
        records=records,
        quarantine=quarantine,
        counts=RecordCounts(
            rows=by_log_partition(rows, pc.not_equal(kinds, ROW_KIND_PROGRESS).to_numpy()),
            applied=Counter(record.log_partition for record in records),
            ignored=by_log_partition(rows, pc.equal(kinds, ROW_KIND_MARKER).to_numpy()),
            quarantined=by_log_partition(quarantine),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedTopic:
    """The effect of a micro-batch of one topic, with times in milliseconds.

    Attributes:
        tables: the rows by table: changes of a table of keys, and new rows of the other tables.
        counts: the records by outcome.
    """

    tables: Mapping[str, pa.Table]
    counts: RecordCounts
