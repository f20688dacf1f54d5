"""Stage 1, collect: splits the rows of a micro-batch by kind and decodes its group records."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import table_of, timestamps
from coordinator_state.apply.counts import RecordCounts, by_log_partition
from coordinator_state.apply.rows import COORDINATOR_RECORD_ROW, GROUP_RECORD_ROW
from coordinator_state.log.log_rows import (
    ROW_KIND_MARKER,
    ROW_KIND_OFFSET,
    ROW_KIND_PROGRESS,
    ROW_KIND_RECORD,
    ROW_KIND_UNDECODABLE,
)
from coordinator_state.records.message_formatter import fields_json, key_json
from coordinator_state.records.record_types import GROUP_METADATA_TYPE
from coordinator_state.records.serde import DecodedKey, DecodedValue, decode_key, decode_value
from coordinator_state.replay.group_replay import GroupRecord, name_of
from coordinator_state.replay.groups import NO_RECORD_OFFSET
from coordinator_state.wire.primitives import uuid_text

GroupId = tuple[int, str]
"""Log partition and group id."""


@dataclass(frozen=True, kw_only=True)
class DecodedGroupRecord:
    """A record of any type except OffsetCommit; its value is decoded when it is first asked for.

    Attributes:
        record_key: the key as JSON.
        is_last: true if no later record of the micro-batch has the same key.
    """

    log_partition: int
    record_offset: int
    record_timestamp_ms: int | None
    group_id: str
    key: DecodedKey
    record_key: str
    raw_key: bytes
    raw_value: bytes | None
    is_last: bool

    @property
    def group(self) -> GroupId:
        """The group of the record."""
        return self.log_partition, self.group_id

    @property
    def record_type(self) -> int:
        """The type of the record, from its key."""
        return self.key.record_type.id

    @cached_property
    def value(self) -> DecodedValue | None:
        """The decoded value; None for a tombstone."""
        raw = self.raw_value
        return None if raw is None else decode_value(self.key.record_type, raw)

    @property
    def replayed(self) -> GroupRecord:
        """The record in the form that the replay takes."""
        return GroupRecord(
            record_type=self.record_type,
            group_id=self.group_id,
            name=name_of(self.key.fields),
            value=None if self.value is None else self.value.fields,
            record_offset=self.record_offset,
            value_bytes=len(self.raw_value or b""),
        )


@dataclass(frozen=True, kw_only=True)
class Collected:
    """The rows of a micro-batch by kind: log rows, and decoded group records in log order.

    `newest_timestamps` has the newest record timestamp of each log partition.
    """

    offsets: pa.Table
    markers: pa.Table
    undecodable: pa.Table
    group_records: Sequence[DecodedGroupRecord]
    rows_by_log_partition: Mapping[int, int]
    newest_timestamps: Mapping[int, datetime]

    @cached_property
    def records_of_groups(self) -> Mapping[GroupId, Sequence[DecodedGroupRecord]]:
        """The group records by group, in log order."""
        records_by_group: dict[GroupId, list[DecodedGroupRecord]] = defaultdict(list)
        for record in self.group_records:
            records_by_group[record.group].append(record)
        return records_by_group

    @cached_property
    def groups_with_offsets(self) -> set[GroupId]:
        """The groups with a commit or an offset tombstone in the micro-batch."""
        return distinct_groups(self.offsets)

    @cached_property
    def transactional_groups(self) -> set[GroupId]:
        """The groups with a transactional commit or tombstone in the micro-batch."""
        return distinct_groups(self.offsets.filter(self.offsets["is_transactional"]))

    def first_commits(self, known: Container[GroupId]) -> dict[GroupId, list[int]]:
        """The record offsets, in order, of commits that may create a group.

        For a group without group records this is one commit, and only if the group is not in
        `known`. For other groups it is the first commit of all, and the first commit after each
        group record. Later commits find the group already created.
        """
        commits = self.offsets.filter(pc.invert(pc.fill_null(self.offsets["is_tombstone"], True)))
        by_group = commits.group_by(["log_partition", "group_id"]).aggregate(
            [("record_offset", "list")]
        )
        offsets_by_group: dict[GroupId, list[int]] = {}
        for group, record_offsets in zip(
            group_ids(by_group), by_group["record_offset_list"], strict=True
        ):
            if group in self.records_of_groups:
                own = [record.record_offset for record in self.records_of_groups[group]]
                in_order = np.sort(record_offsets.values.to_numpy())
                firsts = np.unique(np.searchsorted(in_order, [NO_RECORD_OFFSET, *own]))
                offsets_by_group[group] = in_order[firsts[firsts < in_order.size]].tolist()
            elif group not in known:
                offsets_by_group[group] = [record_offsets.values[0].as_py()]
        return offsets_by_group

    @cached_property
    def topic_ids(self) -> set[str]:
        """The topics that group records name by id."""
        # Classic groups name topics by name only.
        values = (
            record.value.fields
            for record in self.group_records
            if record.record_type != GROUP_METADATA_TYPE and record.value
        )
        return {uuid_text(topic_id) for fields in values for topic_id in _topic_ids(fields)}

    @property
    def counts(self) -> RecordCounts:
        """Counts of all rows and of the group records.

        The last group record of each key is applied, others are superseded.
        """
        is_last = [Counter[int](), Counter[int]()]
        for record in self.group_records:
            is_last[record.is_last][record.log_partition] += 1
        superseded, applied = is_last
        return RecordCounts(rows=self.rows_by_log_partition, applied=applied, superseded=superseded)


def collect(rows: pa.Table) -> Collected:
    """Split log rows (`LOG_ROW_SCHEMA`, in any order) by kind and decode the group records.

    Rows of kind `progress` are ignored.
    """

    def of_kind(kind: str) -> pa.Table:
        return rows.filter(pc.equal(rows["row_kind"], kind))

    return Collected(
        offsets=of_kind(ROW_KIND_OFFSET),
        markers=of_kind(ROW_KIND_MARKER),
        undecodable=of_kind(ROW_KIND_UNDECODABLE),
        group_records=decode_group_records(of_kind(ROW_KIND_RECORD)),
        rows_by_log_partition=by_log_partition(
            rows, pc.not_equal(rows["row_kind"], ROW_KIND_PROGRESS).to_numpy()
        ),
        newest_timestamps=newest_timestamps(rows),
    )


def newest_timestamps(rows: pa.Table) -> dict[int, datetime]:
    """The newest record timestamp of each log partition, from log rows of one topic."""
    newest = rows.group_by("log_partition").aggregate([("record_timestamp_ms", "max")])
    times = timestamps(newest["record_timestamp_ms_max"])
    columns = [newest["log_partition"].to_pylist(), times.to_pylist()]
    return {log_partition: at for log_partition, at in zip(*columns, strict=True) if at is not None}


def decode_group_records(rows: pa.Table) -> list[DecodedGroupRecord]:
    """Decode `record` rows and return them in log order."""
    names = ("log_partition", "record_offset", "record_timestamp_ms", "group_id", "raw_key")
    in_order = rows.select([*names, "raw_value", "is_tombstone"]).sort_by(
        [("log_partition", "ascending"), ("record_offset", "ascending")]
    )
    # A group repeats the key of its GroupMetadata.
    keys: dict[bytes, tuple[DecodedKey, str]] = {}
    later: set[tuple[int, int, str]] = set()
    records = []
    for *columns, raw_key, raw_value, is_tombstone in zip(
        *(reversed(column.to_pylist()) for column in in_order.columns), strict=True
    ):
        log_partition, record_offset, record_timestamp_ms, group_id = columns
        if raw_key not in keys:
            key = decode_key(raw_key)
            keys[raw_key] = key, json.dumps(key_json(key), ensure_ascii=False)
        key, record_key = keys[raw_key]
        identity = log_partition, key.record_type.id, record_key
        records.append(
            DecodedGroupRecord(
                log_partition=log_partition,
                record_offset=record_offset,
                record_timestamp_ms=record_timestamp_ms,
                group_id=group_id,
                key=key,
                record_key=record_key,
                raw_key=raw_key,
                raw_value=None if is_tombstone else raw_value,
                is_last=identity not in later,
            )
        )
        later.add(identity)
    records.reverse()
    return records


def record_rows(records: Iterable[DecodedGroupRecord]) -> pa.Table:
    """The last record of each key as rows of `coordinator_records`."""
    rows = [
        {
            "group_id": record.group_id,
            "record_type": record.record_type,
            "record_type_name": record.key.record_type.name,
            "record_key": record.record_key,
            "log_partition": record.log_partition,
            "value_version": record.value and record.value.version,
            "value": record.value and json.dumps(fields_json(record.value), ensure_ascii=False),
            "raw_key": record.raw_key,
            "raw_value": record.raw_value,
            "is_tombstone": record.value is None,
            "record_offset": record.record_offset,
            "record_timestamp_ms": record.record_timestamp_ms,
        }
        for record in records
        if record.is_last
    ]
    return pa.Table.from_pylist(rows, schema=COORDINATOR_RECORD_ROW)


def every_record_row(records: Iterable[DecodedGroupRecord]) -> pa.Table:
    """Every record as a row of `group_records`."""
    return table_of(records, GROUP_RECORD_ROW)


def group_ids(rows: pa.Table) -> Iterator[GroupId]:
    """The group of each row."""
    return zip(rows["log_partition"].to_pylist(), rows["group_id"].to_pylist(), strict=True)


def distinct_groups(rows: pa.Table) -> set[GroupId]:
    """The groups of all rows."""
    return set(group_ids(rows.group_by(["log_partition", "group_id"]).aggregate([])))


def _topic_ids(fields: Mapping[str, Any]) -> Iterator[UUID]:
    """The values of `topicId` in a record and in the structs within it."""
    for name, value in fields.items():
        if name == "topicId":
            yield value
        elif isinstance(value, list | tuple):
            for element in value:
                if isinstance(element, Mapping):
                    yield from _topic_ids(element)
