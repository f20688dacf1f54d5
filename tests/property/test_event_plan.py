"""Events of micro-batches against a loader that goes record by record: any log, any cut."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_state.errors import DecodeError, UnknownRecordType
from coordinator_state.insight.group_events import EventName, GroupEvent, GroupEventReplay
from coordinator_state.log.log_decoder import decode_record_set
from coordinator_state.log.record_batch import RecordBatch, read_record_batches
from coordinator_state.records.record_types import GROUP_METADATA_TYPE, OFFSET_COMMIT_TYPES
from coordinator_state.records.serde import decode_key, decode_value
from coordinator_state.replay.group_replay import GroupRecord, name_of
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import Semantics
from tests.support.logs.logs import Event, segment
from tests.support.logs.random_logs import logs
from tests.support.tables.plan_tables import LOG_PARTITION, RETENTION_MS, PlanTables


def _decoded(batch: RecordBatch) -> tuple[GroupRecord, bool] | None:
    """The record of a batch of one, where it can be read, and whether it is a group's own."""
    (record,) = batch.records
    if batch.is_control or record.key is None:
        return None
    try:
        key = decode_key(record.key)
        value = None if record.value is None else decode_value(key.record_type, record.value).fields
    except (DecodeError, UnknownRecordType):
        return None
    number = key.record_type.id
    found = GroupRecord(number, key.group_id, name_of(key.fields), value, record.record_offset)
    return found, number not in OFFSET_COMMIT_TYPES


def _replayed(
    replay: GroupEventReplay, batch: RecordBatch, semantics: Semantics
) -> list[GroupEvent]:
    """What happened to the group of a record."""
    decoded = _decoded(batch)
    if decoded is None:
        return []
    record, is_of_group = decoded
    if semantics is Semantics.SCALA and record.record_type != GROUP_METADATA_TYPE:
        return []
    if is_of_group:
        return replay.replay_record(record)
    if record.value is not None:
        replay.groups.replay_offset_commit(record.group_id)
    return []


def _told(buffer: bytes, semantics: Semantics) -> Iterator[GroupEvent]:
    """What happened between each record and the next, in any order within one."""
    loader, replay = ReferenceLoader(semantics), GroupEventReplay()
    for batch in read_record_batches(buffer):
        assert isinstance(batch, RecordBatch)
        yield from _replayed(replay, batch, semantics)
        before = dict(loader.offsets)
        loader.load([batch])
        ((place, at_ms),) = ((one.record_offset, one.timestamp_ms) for one in batch.records)
        for key in before.keys() | loader.offsets.keys():
            was, now = before.get(key), loader.offsets.get(key)
            if now is None and was is not None:
                yield replay.replay_tombstone(
                    key, was, place, timestamp_ms=at_ms, retention_ms=RETENTION_MS
                )
            elif now is not None and now != was:
                moved = replay.replay_commit(key, was, now, place)
                if moved is not None:
                    yield moved


def _columns(event: GroupEvent) -> dict[str, Any]:
    return {
        name: [asdict(one) for one in value] if isinstance(value, tuple) else value
        for name, value in event._asdict().items()
    }


def _comparable(rows: Iterable[dict[str, Any]], *, sampled: bool) -> list[str]:
    told = ({name: row[name] for name in GroupEvent._fields} for row in rows)
    return sorted(
        json.dumps(one, sort_keys=True) for one in told if not (sampled and _is_reset_forward(one))
    )


def _is_reset_forward(event: dict[str, Any]) -> bool:
    """What the commits that follow in its micro-batch may hide, as docs/events.md says."""
    if event["event"] != EventName.OFFSET_RESET.value:
        return False
    before, after = event["offset_before"], event["offset_after"]
    return before is None or after >= before


def _place(event: dict[str, Any]) -> tuple[int, int]:
    return event["record_offset"], event["event_number"]


def _of_one_micro_batch(buffer: bytes, end: int, semantics: Semantics) -> list[dict[str, Any]]:
    """The events, also their numbers, if the log is not cut."""
    decoded = decode_record_set(
        buffer, log_partition=LOG_PARTITION, from_offset=0, to_offset=end, compact=False
    )
    tables = PlanTables(semantics)
    tables.apply(pa.Table.from_batches([decoded.rows]), end, decoded.records_superseded)
    return sorted(tables.events, key=_place)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("semantics", list(Semantics))
@settings(max_examples=200)
@given(data=st.data())
def test_any_cut_tells_what_happened_from_record_to_record(
    semantics: Semantics, sampled: bool, data: st.DataObject
) -> None:
    events: list[Event] = data.draw(logs())
    buffer, end = segment(events)
    cuts = sorted(data.draw(st.sets(st.integers(0, end), max_size=6)) | {end})
    tables = PlanTables(semantics)
    start = 0
    for cut in cuts:
        decoded = decode_record_set(
            buffer,
            log_partition=LOG_PARTITION,
            from_offset=start,
            to_offset=cut,
            compact=sampled,
        )
        rows = pa.Table.from_batches([decoded.rows])
        if data.draw(st.booleans()):
            tables.apply(rows, cut, decoded.records_superseded, crash_after="groups")
        tables.apply(rows, cut, decoded.records_superseded)
        start = cut
    found = [row for row in tables.events if row["event"] != EventName.TRANSACTION_HUNG.value]
    expected = map(_columns, _told(buffer, semantics))
    assert _comparable(found, sampled=sampled) == _comparable(expected, sampled=sampled)
    assert len(set(map(_place, tables.events))) == len(tables.events)
    if not sampled:
        assert sorted(tables.events, key=_place) == _of_one_micro_batch(buffer, end, semantics)
